//! As much of a terminal as the demo uses: lines, carriage returns, going up, and clearing what is below.

#[derive(Default)]
pub(super) struct Screen {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Screen {
    pub(super) fn write(&mut self, text: &str) {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\n' => {
                    self.row += 1;
                    self.column = 0;
                }
                '\r' => self.column = 0,
                '\x1b' => {
                    // `ESC [ numbers letter`
                    let mut parameters = String::new();
                    let letter = rest.by_ref().skip(1).find(|c| {
                        parameters.push(*c);
                        c.is_ascii_alphabetic()
                    });
                    parameters.pop();
                    self.control(letter, &parameters);
                }
                c if c.is_control() => (),
                c => self.put(c),
            }
        }
    }

    fn control(&mut self, letter: Option<char>, parameters: &str) {
        let count = parameters.parse().unwrap_or(1);
        match letter {
            Some('A') => self.row = self.row.saturating_sub(count),
            Some('J') => {
                self.lines.truncate(self.row + 1);
                self.clear_line();
            }
            Some('K') => self.clear_line(),
            // Colours and the like: the recording has its own.
            _ => (),
        }
    }

    fn clear_line(&mut self) {
        if let Some(line) = self.lines.get_mut(self.row) {
            line.truncate(self.column);
        }
    }

    fn put(&mut self, c: char) {
        if self.lines.len() <= self.row {
            self.lines.resize(self.row + 1, Vec::new());
        }
        let line = &mut self.lines[self.row];
        if line.len() <= self.column {
            line.resize(self.column + 1, ' ');
        }
        line[self.column] = c;
        self.column += 1;
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_redrawn_in_place() {
        let mut screen = Screen::default();
        screen.write("start\r\nCALL  1\r\nweb   10\r\n");
        screen.write("\x1b[2A\x1b[JCALL\r\n\x1b[1mweb\x1b[0m 2\r\n");
        assert_eq!(screen.lines(), ["start", "CALL", "web 2"]);
    }

    #[test]
    fn a_line_is_overwritten_after_a_carriage_return() {
        let mut screen = Screen::default();
        screen.write("10 %\r\x1b[K5 %\r\n");
        assert_eq!(screen.lines(), ["5 %"]);
    }
}
