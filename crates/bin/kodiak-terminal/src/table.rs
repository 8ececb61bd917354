//! Plain tables: columns with three blanks between them, nothing to draw around, nothing cut off.

use comfy_table::{ContentArrangement, presets};

use crate::printable;

pub struct Table(comfy_table::Table);

const GAP: u16 = 3;

impl Table {
    pub fn new(headers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(headers.into_iter().map(Into::into).collect::<Vec<String>>());
        Self(table)
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A cell is one line, whatever a server puts into it.
        let clean = |cell: String| printable(&cell).replace(['\n', '\t'], " ");
        self.0.add_row(cells.into_iter().map(clean).collect::<Vec<_>>());
    }

    /// The whole table, without a newline at its end.
    pub fn show(mut self) -> String {
        for column in self.0.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        self.0.trim_fmt()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_tail() {
        let mut table = Table::new(["MESH", "NAME", "AGE"]);
        table.row(["default".to_owned(), "a".to_owned(), "5s".to_owned()]);
        table.row(["d".to_owned(), "a-much-longer-name".to_owned(), "1\u{1b}[2J\nx".to_owned()]);
        expect![[r#"
            MESH      NAME                 AGE
            default   a                    5s
            d         a-much-longer-name   1�[2J x"#]]
        .assert_eq(&table.show());
    }
}
