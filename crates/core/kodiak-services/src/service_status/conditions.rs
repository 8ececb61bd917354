//! Conditions about problems of a service. A condition exists only while there is the problem.

use std::sync::Arc;

use kodiak_model::Condition;

const PORTS: &str = "PortsMatch";
const SELECTED: &str = "DataplanesSelected";
const TLS: &str = "TlsReady";
/// Limit of named Dataplanes; the others are counted.
const MOST_NAMED: usize = 10;

/// Sets the condition to `False` with this reason and message, or removes it.
pub(super) fn report(conditions: &mut Vec<Condition>, condition_type: &str, problem: Option<(&str, String)>) {
    let condition = problem.map(|(reason, message)| Condition {
        condition_type: condition_type.to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        message,
    });
    let known = conditions.iter().position(|known| known.condition_type == condition_type);
    match (known, condition) {
        (Some(at), Some(condition)) => conditions[at] = condition,
        (Some(at), None) => _ = conditions.remove(at),
        (None, condition) => conditions.extend(condition),
    }
}

/// Dataplanes whose ports differ from those of their generated MeshService.
pub(super) fn report_ports(conflict: &[Arc<str>], conditions: &mut Vec<Condition>) {
    let problem = (!conflict.is_empty()).then(|| {
        let named = dataplanes(conflict);
        let message = format!(
            "{named} and this MeshService have different ports; clients reach only the ports of the MeshService. Give \
             all Dataplanes of a service the same ports."
        );
        ("DataplanePortsDiffer", message)
    });
    report(conditions, PORTS, problem);
}

/// Dataplanes without a generated MeshService, because one of a user has its name.
pub(super) fn report_name(name: &str, unselected: &[Arc<str>], conditions: &mut Vec<Condition>) {
    let problem = (!unselected.is_empty()).then(|| {
        let named = dataplanes(unselected);
        let message = format!(
            "{named} serve {name:?}, and this MeshService of the same name does not select them; none is generated for \
             them. Select them, or rename the MeshService."
        );
        ("NameConflict", message)
    });
    report(conditions, SELECTED, problem);
}

/// TLS settings of a MeshExternalService that cannot be configured.
pub(super) fn report_tls(fault: Option<&str>, conditions: &mut Vec<Condition>) {
    let problem = fault.map(|fault| ("TlsSettingsInvalid", fault.to_owned()));
    report(conditions, TLS, problem);
}

/// `Dataplanes "a", "b" and 3 more`.
pub(super) fn dataplanes<'a>(names: impl IntoIterator<Item = &'a Arc<str>, IntoIter: ExactSizeIterator>) -> String {
    let names = names.into_iter();
    let more = names.len().saturating_sub(MOST_NAMED);
    let first: Vec<String> = names.take(MOST_NAMED).map(|name| format!("{name:?}")).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("Dataplanes {}{more}", first.join(", "))
}
