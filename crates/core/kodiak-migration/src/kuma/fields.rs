//! Reads the fields of a legacy resource. A field that nobody reads makes the conversion fail, so that none is lost.

use serde_json::{Map, Value};

/// Fields of an object that are not read yet.
pub(super) struct Fields {
    map: Map<String, Value>,
    path: String,
}

impl Fields {
    /// `null` and a missing object have no fields.
    pub(super) fn of(value: Option<Value>, path: &str) -> Result<Self, String> {
        match value {
            Some(Value::Object(map)) => Ok(Self { map, path: path.to_owned() }),
            None | Some(Value::Null) => Ok(Self { map: Map::new(), path: path.to_owned() }),
            Some(_) => Err(format!("{path} is not an object")),
        }
    }

    /// Takes a field, also in Kuma's other spelling: `connect_timeout` for `connectTimeout`.
    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        let value = self.map.remove(field).or_else(|| self.map.remove(&snake_case(field)));
        value.filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, field: &str) -> Result<Option<String>, String> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{} is not a text", self.at(field))),
        }
    }

    pub(super) fn flag(&mut self, field: &str) -> Result<Option<bool>, String> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(format!("{} is not true or false", self.at(field))),
        }
    }

    pub(super) fn list(&mut self, field: &str) -> Result<Vec<Value>, String> {
        match self.take(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(format!("{} is not a list", self.at(field))),
        }
    }

    pub(super) fn object(&mut self, field: &str) -> Result<Option<Self>, String> {
        let at = self.at(field);
        self.take(field).map(|value| Self::of(Some(value), &at)).transpose()
    }

    /// All remaining fields.
    pub(super) fn rest(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.map)
    }

    /// Fails if a field was not read.
    pub(super) fn end(&self) -> Result<(), String> {
        match self.map.keys().next() {
            Some(field) => Err(format!("{} has no counterpart", self.at(field))),
            None => Ok(()),
        }
    }

    pub(super) fn at(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    /// Copies fields under new names.
    pub(super) fn copy(&mut self, names: &[(&str, &str)]) -> Map<String, Value> {
        names.iter().filter_map(|(old, new)| Some(((*new).to_owned(), self.take(old)?))).collect()
    }
}

fn snake_case(field: &str) -> String {
    let mut text = String::new();
    for c in field.chars() {
        if c.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// Inserts an object that has fields.
pub(super) fn insert(map: &mut Map<String, Value>, field: &str, inner: Map<String, Value>) {
    if !inner.is_empty() {
        map.insert(field.to_owned(), Value::Object(inner));
    }
}

/// A percentage or factor: whole numbers stay numbers, others become texts.
pub(super) fn decimal(number: Value) -> Value {
    match number.as_f64() {
        Some(value) if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: a whole u32")]
            let whole = value as u32;
            whole.into()
        }
        Some(value) => value.to_string().into(),
        None => number,
    }
}

/// Headers `[{key, value, append}]` as `{add, set}`. Envoy appends by default.
pub(super) fn headers(list: Vec<Value>, path: &str) -> Result<Map<String, Value>, String> {
    let (mut add, mut set) = (Vec::new(), Vec::new());
    for header in list {
        let mut fields = Fields::of(Some(header), path)?;
        let appends = fields.flag("append")?.unwrap_or(true);
        let mut inner = fields.object("header")?.unwrap_or(fields);
        let named = inner.copy(&[("key", "name"), ("name", "name"), ("value", "value")]);
        inner.end()?;
        if appends { add.push(Value::Object(named)) } else { set.push(Value::Object(named)) }
    }
    let lists = [("add", add), ("set", set)].into_iter().filter(|(_, list)| !list.is_empty());
    Ok(lists.map(|(field, list)| (field.to_owned(), Value::Array(list))).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unread_fields_are_reported_with_their_path() {
        let mut fields = Fields::of(Some(json!({ "a": 1, "http": { "b": 2, "strange": 3 } })), "conf").unwrap();
        assert_eq!(fields.take("a"), Some(json!(1)));
        let mut http = fields.object("http").unwrap().unwrap();
        assert_eq!(http.take("b"), Some(json!(2)));
        assert_eq!(http.end(), Err("conf.http.strange has no counterpart".to_owned()));
        assert_eq!(fields.end(), Ok(()));
    }

    #[test]
    fn fields_have_two_spellings() {
        let mut fields = Fields::of(Some(json!({ "connect_timeout": "5s" })), "conf").unwrap();
        assert_eq!(fields.take("connectTimeout"), Some(json!("5s")));
    }

    #[test]
    fn decimals_that_are_whole_stay_numbers() {
        assert_eq!(decimal(json!(50.0)), json!(50));
        assert_eq!(decimal(json!(1.9)), json!("1.9"));
    }
}
