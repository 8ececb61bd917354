//! CircuitBreaker to MeshCircuitBreaker.

use serde_json::{Map, Value};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::{Fields, decimal, insert},
    selector::Selector,
};

pub(super) const KIND: ConnectionKind = ConnectionKind {
    legacy: "CircuitBreaker",
    new: "MeshCircuitBreaker",
    side: Side::Sources,
    several: Several::MostSpecific,
    conf,
};

fn conf(mut old: Fields, _: &Selector, _: &MeshFacts) -> Result<NewConf, String> {
    let mut new = Map::new();
    if let Some(mut thresholds) = old.object("thresholds")? {
        let fields = ["maxConnections", "maxPendingRequests", "maxRetries", "maxRequests"].map(|field| (field, field));
        insert(&mut new, "connectionLimits", thresholds.copy(&fields));
        thresholds.end()?;
    }
    let settings = ["interval", "baseEjectionTime", "maxEjectionPercent", "splitExternalAndLocalErrors"];
    let mut outliers = old.copy(&settings.map(|field| (field, field)));
    if let Some(mut written) = old.object("detectors")? {
        let mut detectors = Map::new();
        for (field, name) in [
            ("totalErrors", "totalFailures"),
            ("gatewayErrors", "gatewayFailures"),
            ("localErrors", "localOriginFailures"),
        ] {
            if let Some(mut errors) = written.object(field)? {
                let consecutive = errors.copy(&[("consecutive", "consecutive")]);
                errors.end()?;
                detectors.insert(name.to_owned(), Value::Object(consecutive));
            }
        }
        if let Some(mut deviation) = written.object("standardDeviation")? {
            let volumes = [("requestVolume", "requestVolume"), ("minimumHosts", "minimumHosts")];
            let mut rate = deviation.copy(&volumes);
            let factor = deviation.take("factor").map(decimal);
            rate.extend(factor.map(|factor| ("standardDeviationFactor".to_owned(), factor)));
            deviation.end()?;
            detectors.insert("successRate".to_owned(), Value::Object(rate));
        }
        if let Some(mut failure) = written.object("failure")? {
            let fields = ["requestVolume", "minimumHosts", "threshold"].map(|field| (field, field));
            let percentage = failure.copy(&fields);
            failure.end()?;
            detectors.insert("failurePercentage".to_owned(), Value::Object(percentage));
        }
        written.end()?;
        insert(&mut outliers, "detectors", detectors);
    }
    old.end()?;
    insert(&mut new, "outlierDetection", outliers);
    Ok(Value::Object(new).into())
}
