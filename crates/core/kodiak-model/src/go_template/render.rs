//! Renders a template.

use std::collections::BTreeMap;

use super::{
    RenderError,
    number::Number,
    parser::{Command, Node, Operand, Term},
};

#[derive(Clone, Copy)]
pub(super) struct Data<'a> {
    pub(super) fields: &'a BTreeMap<&'a str, String>,
    pub(super) call: &'a dyn Fn(&str, &str) -> Result<String, String>,
}

pub(super) fn render(text: &str, nodes: &[Node], data: Data<'_>) -> Result<String, RenderError> {
    let mut rendered = String::new();
    for node in nodes {
        match node {
            Node::Text(text) => rendered.push_str(text),
            Node::Pipeline(commands) => {
                let value = data.pipeline(commands).map_err(|fault| fault.locate(text))?;
                rendered.push_str(&value.printed());
            }
        }
    }
    Ok(rendered)
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Number(Number),
    Bool(bool),
}

impl Value {
    fn printed(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(Number::Int(value)) => value.to_string(),
            Self::Number(Number::Float(value)) => value.to_string(),
            Self::Bool(value) => value.to_string(),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Number(Number::Int(_)) => "int",
            Self::Number(Number::Float(_)) => "float64",
            Self::Bool(_) => "bool",
        }
    }
}

/// A rendering error, and the part of the template that it is about.
struct Fault {
    start: usize,
    part: String,
    message: String,
}

impl Fault {
    fn of(operand: &Operand, message: impl Into<String>) -> Self {
        Self { start: operand.start, part: operand.text.clone(), message: message.into() }
    }

    fn locate(self, text: &str) -> RenderError {
        let before = &text[..self.start];
        let line = 1 + before.matches('\n').count();
        let column = before.len() - before.rfind('\n').map_or(0, |newline| newline + 1);
        RenderError { line, column, part: self.part, message: self.message }
    }
}

impl Data<'_> {
    fn pipeline(&self, commands: &[Command]) -> Result<Value, Fault> {
        let (first, rest) = commands.split_first().expect("the parser refuses an empty pipeline");
        rest.iter().try_fold(self.command(first, None)?, |piped, command| self.command(command, Some(piped)))
    }

    fn command(&self, command: &Command, piped: Option<Value>) -> Result<Value, Fault> {
        let Command { first, arguments } = command;
        let fault = |message: String| Err(Fault::of(first, message));
        let given = !arguments.is_empty() || piped.is_some();
        if given && !first.term.takes_argument() {
            return fault(format!("can't give argument to non-function {}", first.text));
        }
        match &first.term {
            Term::Function(name) => self.call(name, command, piped),
            Term::Field(names) => {
                let value = self.field(first, names)?;
                let name = names.last().map_or("", String::as_str);
                if given { fault(format!("{name} has arguments but cannot be invoked as function")) } else { Ok(value) }
            }
            Term::Text(text) => Ok(Value::Text(text.clone())),
            Term::Number(number) => Ok(Value::Number(*number)),
            Term::Bool(value) => Ok(Value::Bool(*value)),
            Term::Nil => fault("nil is not a command".to_owned()),
            Term::Dot => fault(format!("a template cannot print all its fields; name one of {}", self.field_names())),
        }
    }

    fn field(&self, operand: &Operand, names: &[String]) -> Result<Value, Fault> {
        let (first, rest) = names.split_first().expect("a field has a name");
        let Some(value) = self.fields.get(first.as_str()) else {
            let message = format!("can't evaluate field {first}; fields are {}", self.field_names());
            return Err(Fault::of(operand, message));
        };
        match rest.first() {
            Some(inner) => Err(Fault::of(operand, format!("can't evaluate field {inner} in type string"))),
            None => Ok(Value::Text(value.clone())),
        }
    }

    fn field_names(&self) -> String {
        let names: Vec<String> = self.fields.keys().map(|name| format!(".{name}")).collect();
        names.join(", ")
    }

    /// Functions take one string: an argument, or the piped value.
    fn call(&self, name: &str, command: &Command, piped: Option<Value>) -> Result<Value, Fault> {
        let Command { first, arguments } = command;
        let argument = match (arguments.as_slice(), piped) {
            ([argument], None) => self.argument(argument)?,
            ([], Some(Value::Text(text))) => text,
            ([], Some(other)) => {
                let message = format!("wrong type for value; expected string; got {}", other.type_name());
                return Err(Fault::of(first, message));
            }
            (_, piped) => {
                let got = arguments.len() + usize::from(piped.is_some());
                return Err(Fault::of(first, format!("wrong number of args for {name}: want 1 got {got}")));
            }
        };
        (self.call)(name, &argument).map(Value::Text).map_err(|reason| {
            let part = arguments.iter().fold(first.text.clone(), |part, argument| part + " " + &argument.text);
            Fault { start: first.start, part, message: format!("error calling {name}: {reason}") }
        })
    }

    fn argument(&self, operand: &Operand) -> Result<String, Fault> {
        let fault = |message: String| Err(Fault::of(operand, message));
        match &operand.term {
            Term::Text(text) => Ok(text.clone()),
            Term::Field(names) => Ok(self.field(operand, names)?.printed()),
            Term::Function(name) => fault(format!("wrong number of args for {name}: want 1 got 0")),
            Term::Number(_) | Term::Bool(_) => fault(format!("expected string; found {}", operand.text)),
            Term::Nil => fault("cannot assign nil to string".to_owned()),
            Term::Dot => fault("expected string; found .".to_owned()),
        }
    }
}
