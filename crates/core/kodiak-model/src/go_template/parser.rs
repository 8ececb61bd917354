//! Parser: turns tokens into commands.

use super::{
    TemplateError,
    lexer::{self, Kind, Token},
    number::{self, Number},
    quote::{quote, unquote},
};

/// Built-in functions of Go's templates that are unsupported here.
const GO_FUNCTIONS: &[&str] = &[
    "and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print", "printf",
    "println", "slice", "urlquery",
];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Text(String),
    /// The result of each command is the last argument of the next one.
    Pipeline(Vec<Command>),
}

/// A value or a function, and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Command {
    pub(super) first: Operand,
    pub(super) arguments: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operand {
    pub(super) term: Term,
    /// Source text.
    pub(super) text: String,
    pub(super) start: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    /// `.Mesh`, or a chain of fields.
    Field(Vec<String>),
    Function(String),
    Text(String),
    Number(Number),
    Bool(bool),
    Nil,
    Dot,
}

impl Term {
    /// Literals cannot receive a piped value.
    pub(super) fn takes_argument(&self) -> bool {
        matches!(self, Self::Field(_) | Self::Function(_))
    }
}

pub(super) fn parse(text: &str, functions: &[&str]) -> Result<Vec<Node>, TemplateError> {
    let mut parser = Parser { tokens: lexer::tokens(text), at: 0, seen: 0, action_line: None, functions };
    let mut nodes = Vec::new();
    loop {
        let token = parser.next();
        match token.kind {
            Kind::Text => nodes.push(Node::Text(token.text.into_owned())),
            Kind::Open => {
                parser.action_line = Some(token.line);
                nodes.push(Node::Pipeline(parser.action()?));
                parser.action_line = None;
            }
            Kind::End => return Ok(nodes),
            _ => return Err(parser.unexpected(&token, "input")),
        }
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    /// The furthest token that was peeked: errors are reported on its line.
    seen: usize,
    action_line: Option<usize>,
    functions: &'a [&'a str],
}

type Parsed<T> = Result<T, TemplateError>;

impl<'a> Parser<'a> {
    fn action(&mut self) -> Parsed<Vec<Command>> {
        self.skip_spaces();
        let token = self.peek();
        if token.kind == Kind::Keyword {
            return Err(self.control(&token.text));
        }
        let mut commands = Vec::new();
        loop {
            self.skip_spaces();
            let token = self.peek();
            match token.kind {
                Kind::Close => break,
                kind if starts_operand(kind) => commands.push(self.command()?),
                _ => return Err(self.unexpected(&token, "command")),
            }
        }
        self.next();
        if commands.is_empty() {
            return Err(self.fault("missing value for command"));
        }
        // A piped value must go to a function or a field.
        let stuck = commands.iter().skip(1).position(|command| !command.first.term.takes_argument());
        match stuck {
            Some(position) => Err(self.fault(format!("non executable command in pipeline stage {}", position + 2))),
            None => Ok(commands),
        }
    }

    /// Reads up to a pipe, which is consumed, or to the end of the action.
    fn command(&mut self) -> Parsed<Command> {
        let first = self.operand()?;
        let mut arguments = Vec::new();
        loop {
            let token = self.next();
            match token.kind {
                Kind::Space => {
                    self.skip_spaces();
                    if starts_operand(self.peek().kind) {
                        arguments.push(self.operand()?);
                    }
                }
                Kind::Close => {
                    self.at -= 1;
                    break;
                }
                Kind::Pipe => break,
                _ => return Err(self.unexpected(&token, "operand")),
            }
        }
        Ok(Command { first, arguments })
    }

    fn operand(&mut self) -> Parsed<Operand> {
        let token = self.next();
        let mut term = self.term(&token)?;
        let Token { text, mut start, .. } = token;
        let mut text = text.into_owned();
        if self.peek().kind == Kind::Field {
            start = self.peek().start;
            let Term::Field(names) = &mut term else { return Err(self.fields_of(&term, &text)) };
            while self.peek().kind == Kind::Field {
                let field = self.next();
                names.push(field.text[1..].to_owned());
                text.push_str(&field.text);
            }
        }
        Ok(Operand { term, text, start })
    }

    fn term(&self, token: &Token<'_>) -> Parsed<Term> {
        let text = token.text.as_ref();
        Ok(match token.kind {
            Kind::Field => Term::Field(vec![text[1..].to_owned()]),
            Kind::Name if self.functions.contains(&text) => Term::Function(text.to_owned()),
            Kind::Name if GO_FUNCTIONS.contains(&text) => {
                return Err(self.fault(format!("function {} is not supported", quote(text))));
            }
            Kind::Name => return Err(self.fault(format!("function {} not defined", quote(text)))),
            Kind::Quoted => Term::Text(unquote(text).ok_or_else(|| self.fault("invalid syntax"))?),
            Kind::Number => Term::Number(number::value(text).map_err(|message| self.fault(message))?),
            Kind::Bool => Term::Bool(text == "true"),
            Kind::Nil => Term::Nil,
            Kind::Dot => Term::Dot,
            Kind::Variable => return Err(self.fault(format!("variable {text} is not supported"))),
            Kind::Parenthesis => return Err(self.fault("parentheses are not supported")),
            _ => return Err(self.unexpected(token, "operand")),
        })
    }

    fn fields_of(&self, term: &Term, text: &str) -> TemplateError {
        match term {
            Term::Function(_) => self.fault("fields of a function's answer are not supported"),
            _ => self.fault(format!("unexpected . after term {}", quote(text))),
        }
    }

    /// Error for an action that starts with a keyword.
    fn control(&mut self, keyword: &str) -> TemplateError {
        let action = format!("{{{{{keyword}}}}}");
        let (context, message) = match keyword {
            "end" | "else" => (keyword, format!("unexpected {action}")),
            "break" | "continue" => (action.as_str(), format!("{action} outside {{{{range}}}}")),
            _ => return self.fault(format!("{action} is not supported")),
        };
        self.next();
        self.skip_spaces();
        let token = self.peek();
        if token.kind == Kind::Close { self.fault(message) } else { self.unexpected(&token, context) }
    }

    fn unexpected(&self, token: &Token<'_>, context: &str) -> TemplateError {
        if token.kind != Kind::Bad {
            return self.fault(format!("unexpected {} in {context}", shown(token)));
        }
        let reason = &token.text;
        match self.action_line.filter(|line| *line != token.line) {
            Some(line) if reason.ends_with(" action") => self.fault(format!("{reason} started at :{line}")),
            Some(line) => self.fault(format!("{reason} in action started at :{line}")),
            None => self.fault(reason.as_ref()),
        }
    }

    fn fault(&self, message: impl Into<String>) -> TemplateError {
        TemplateError { line: self.tokens[self.seen].line, message: message.into() }
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// At the end, returns the last token again.
    fn peek(&mut self) -> Token<'a> {
        let at = self.at.min(self.tokens.len() - 1);
        self.seen = self.seen.max(at);
        self.tokens[at].clone()
    }

    fn skip_spaces(&mut self) {
        while self.peek().kind == Kind::Space {
            self.next();
        }
    }
}

fn starts_operand(kind: Kind) -> bool {
    match kind {
        Kind::Field
        | Kind::Name
        | Kind::Dot
        | Kind::Nil
        | Kind::Bool
        | Kind::Quoted
        | Kind::Number
        | Kind::Variable
        | Kind::Parenthesis => true,
        Kind::Text
        | Kind::Open
        | Kind::Close
        | Kind::Space
        | Kind::Pipe
        | Kind::Keyword
        | Kind::Other
        | Kind::Bad
        | Kind::End => false,
    }
}

fn shown(token: &Token<'_>) -> String {
    const LONG: usize = 10;
    let text = token.text.as_ref();
    match token.kind {
        Kind::End => "EOF".to_owned(),
        Kind::Keyword | Kind::Dot | Kind::Nil => format!("<{text}>"),
        _ if text.len() > LONG => format!("{}...", quote(&text.chars().take(LONG).collect::<String>())),
        _ => quote(text),
    }
}
