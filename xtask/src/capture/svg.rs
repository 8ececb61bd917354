//! Frames of a terminal as one animated SVG. Where motion is not wanted, the last frame is shown.

use std::fmt::Write as _;
use std::time::Duration;

/// The lines of the terminal, and from when they are shown.
pub(super) struct Frame {
    pub(super) at: Duration,
    pub(super) lines: Vec<String>,
}

/// How long the last frame stays before the recording starts again.
const END: Duration = Duration::from_secs(5);
const LINE_HEIGHT: usize = 19;
const CHAR_WIDTH: f64 = 8.0;
const TOP: usize = 44;
const LEFT: usize = 18;

const STYLE: &str = "\
.window{fill:#0d1117;stroke:#30363d}.bar{fill:#161b22}.title{fill:#8b949e;font:13px sans-serif}\
.line{fill:#e6edf3;font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}\
.frame{visibility:hidden}";

pub(super) fn render(title: &str, frames: &[Frame], columns: usize) -> String {
    let widest = frames.iter().flat_map(|frame| &frame.lines).map(|line| line.chars().count()).max();
    let columns = columns.max(widest.unwrap_or_default());
    let rows = frames.iter().map(|frame| frame.lines.len()).max().unwrap_or_default() + 1;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a width")]
    let width = (columns as f64 * CHAR_WIDTH) as usize + 2 * LEFT;
    let height = TOP + rows * LINE_HEIGHT + LEFT;
    let total = frames.last().map_or(END, |last| last.at + END);
    let percent = |at: Duration| 100.0 * at.as_secs_f64() / total.as_secs_f64();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Recording of {title}\">\n<style>{STYLE}"
    );
    for (index, frame) in frames.iter().enumerate() {
        let start = if index == 0 { 0.0 } else { percent(frame.at) };
        let end = frames.get(index + 1).map_or(100.0, |next| percent(next.at));
        let _ = write!(
            text,
            "@keyframes f{index}{{0%{{visibility:hidden}}{start:.2}%{{visibility:visible}}{end:.2}%{{visibility:hidden}}}}\
             #f{index}{{animation:f{index} {:.1}s step-end infinite}}",
            total.as_secs_f64()
        );
    }
    let last = frames.len().saturating_sub(1);
    let _ = write!(
        text,
        "#f{last}{{visibility:visible}}@media (prefers-reduced-motion:reduce){{.frame{{animation:none!important}}}}\
         </style>\n<rect class=\"window\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         <path class=\"bar\" d=\"M1 30V9a8 8 0 0 1 8-8h{}a8 8 0 0 1 8 8v21z\"/>\n\
         <text class=\"title\" x=\"{}\" y=\"20\" text-anchor=\"middle\">{}</text>\n",
        width - 1,
        height - 1,
        width - 18,
        width / 2,
        escaped(title)
    );
    for (index, frame) in frames.iter().enumerate() {
        let _ = writeln!(text, "<g class=\"frame\" id=\"f{index}\">");
        let prompt = format!("$ {title}");
        for (row, line) in std::iter::once(&prompt).chain(&frame.lines).enumerate().filter(|(_, line)| !line.is_empty())
        {
            let y = TOP + (row + 1) * LINE_HEIGHT - 6;
            let _ = writeln!(text, "<text class=\"line\" x=\"{LEFT}\" y=\"{y}\">{}</text>", escaped(line));
        }
        text.push_str("</g>\n");
    }
    text + "</svg>\n"
}

fn escaped(line: &str) -> String {
    // Several blanks are one in SVG, where `white-space` is not supported.
    line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace("  ", " \u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_each_other_and_text_is_escaped() {
        let frame = |seconds, line: &str| Frame { at: Duration::from_secs(seconds), lines: vec![line.to_owned()] };
        let svg = render("kodiak demo", &[frame(1, "a < b"), frame(5, "P50   P99")], 80);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("@keyframes f0{0%{visibility:hidden}0.00%{visibility:visible}50.00%{visibility:hidden}}"));
        assert!(
            svg.contains("@keyframes f1{0%{visibility:hidden}50.00%{visibility:visible}100.00%{visibility:hidden}}")
        );
        assert!(svg.contains(">a &lt; b</text>"), "{svg}");
        assert!(svg.contains(">$ kodiak demo</text>"), "{svg}");
    }
}
