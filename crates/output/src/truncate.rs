//! The third stage: truncates a text that is still too long.
//!
//! Removes the middle: the beginning identifies a text and the end has its outcome, so 60% of the room go to the head and
//! 40% to the tail, at line boundaries if possible. The room is a hard limit, including the marker, for every value down to
//! zero.

use super::body::{Body, Extent};
use super::size::Kb;

/// Where a text is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// In the middle.
    Middle,
    /// At the end.
    End,
}

/// At most `room` bytes of the body.
pub fn fit(body: &Body<'_>, room: usize, cut: Cut) -> String {
    let mut out = String::with_capacity(body.extent().bytes.min(room));
    print_fitting(body, room, cut, &mut out);
    out
}

/// Appends at most `room` bytes of the body. Head and marker are written in place, so that the answer is not copied.
pub(super) fn print_fitting(body: &Body<'_>, room: usize, cut: Cut, out: &mut String) {
    let start = out.len();
    if body.extent().bytes <= room {
        return body.print_head(room, out);
    }
    let tries: &[CutBy] = match cut {
        Cut::Middle => &[between_lines, inside_a_line],
        Cut::End => &[head_only],
    };
    let fitted = tries.iter().any(|cut_by| {
        let fits = cut_by(body, room, out).is_some();
        out.truncate(if fits { out.len() } else { start });
        fits
    });
    if !fitted {
        // No room for a marker and some text.
        body.print_head(room, out);
    }
}

/// Appends the truncated body; `None` if that does not work, after which the caller removes what was appended.
type CutBy = fn(&Body<'_>, usize, &mut String) -> Option<()>;

/// Truncates between lines, unless long lines would leave more than half of the room empty.
fn between_lines(body: &Body<'_>, room: usize, out: &mut String) -> Option<()> {
    let all = body.extent();
    let marker_room = lines_marker(all, all.lines, all.lines).len() + 2;
    let (head_room, tail_room) = shares(room, marker_room)?;
    let start = out.len();
    body.print_head(head_room, out);
    let head = out.get(start..)?.rsplit_once('\n')?.0;
    let tail = body.tail(tail_room);
    let (_, tail) = tail.split_once('\n')?;
    if head.len() * 2 < head_room || tail.len() * 2 < tail_room {
        return None;
    }
    // `head` is without its last line break, so an empty last line counts.
    let first = Extent::of(head).lines + usize::from(head.ends_with('\n') || head.is_empty());
    let last = Extent::of(tail).lines;
    let gone = Extent {
        bytes: all.bytes.saturating_sub(head.len() + tail.len()),
        lines: all.lines.saturating_sub(first + last),
    };
    let end = start + head.len();
    out.truncate(end);
    out.extend(["\n", &lines_marker(gone, first, last), "\n", tail]);
    Some(())
}

fn lines_marker(gone: Extent, first: usize, last: usize) -> String {
    format!("... [{} lines / {} truncated — showing first {first} + last {last} lines] ...", gone.lines, Kb(gone.bytes))
}

fn inside_a_line(body: &Body<'_>, room: usize, out: &mut String) -> Option<()> {
    let all = body.extent().bytes;
    let (head_room, tail_room) = shares(room, middle_marker(all).len())?;
    let start = out.len();
    body.print_head(head_room, out);
    let tail = body.tail(tail_room);
    let shown = out.len() - start + tail.len();
    out.extend([&middle_marker(all.saturating_sub(shown)), &*tail]);
    Some(())
}

fn middle_marker(gone: usize) -> String {
    format!("... [truncated middle — {} omitted] ...", Kb(gone))
}

fn head_only(body: &Body<'_>, room: usize, out: &mut String) -> Option<()> {
    let all = body.extent().bytes;
    let left = room.checked_sub(end_marker(all).len()).filter(|&left| left >= MIN_TEXT)?;
    let start = out.len();
    body.print_head(left, out);
    let head = out.get(start..)?;
    let whole_lines = head.rsplit_once('\n').map(|(lines, _)| lines).filter(|lines| lines.len() * 2 >= left);
    let shown = whole_lines.unwrap_or(head).len();
    out.truncate(start + shown);
    out.push_str(&end_marker(all.saturating_sub(shown)));
    Some(())
}

fn end_marker(gone: usize) -> String {
    format!("\n... [truncated end — {} omitted] ...", Kb(gone))
}

/// Minimum number of bytes of text beside a marker.
const MIN_TEXT: usize = 16;

/// The sizes of head and tail beside the marker.
fn shares(room: usize, marker: usize) -> Option<(usize, usize)> {
    let left = room.checked_sub(marker).filter(|&left| left >= MIN_TEXT)?;
    // Divide first, because the product may overflow.
    let head = left / 5 * 3 + left % 5 * 3 / 5;
    Some((head, left - head))
}

#[cfg(test)]
mod tests {
    use super::super::body::BodyForm;
    use super::*;

    fn cut(text: &str, room: usize, cut: Cut) -> String {
        let fitted = fit(&Body::new(text.into(), BodyForm::Text), room, cut);
        assert!(fitted.len() <= room.max(text.len().min(room)), "{} bytes in {room}", fitted.len());
        fitted
    }

    fn numbered(lines: usize) -> String {
        (1..=lines).map(|line| format!("line {line:04}\n")).collect()
    }

    #[test]
    fn across_lines_head_and_tail_are_whole_lines() {
        insta::assert_snapshot!(cut(&numbered(1000), 240, Cut::Middle), @r"
        line 0001
        line 0002
        line 0003
        line 0004
        line 0005
        line 0006
        line 0007
        line 0008
        line 0009
        ... [985 lines / 9.6KB truncated — showing first 9 + last 6 lines] ...
        line 0995
        line 0996
        line 0997
        line 0998
        line 0999
        line 1000
        ");
    }

    #[test]
    fn shown_and_truncated_lines_add_up() {
        for room in 150..600 {
            let text = cut(&numbered(500), room, Cut::Middle);
            let marker = text.lines().find(|line| line.starts_with("...")).expect("a marker");
            let numbers: Vec<usize> =
                marker.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect();
            let [gone, _, _, first, last] = numbers[..] else { panic!("{marker}") };
            assert_eq!(gone + first + last, 500, "{marker}");
            assert_eq!(text.lines().position(|line| line == marker), Some(first));
            assert_eq!(text.lines().count(), first + last + 1);
        }
    }

    #[test]
    fn one_long_line_is_cut_inside() {
        let text = format!("{}{}", "a".repeat(5_000), "z".repeat(5_000));
        let expected = format!("{}... [truncated middle — 9.6KB omitted] ...{}", "a".repeat(93), "z".repeat(63));
        assert_eq!(cut(&text, 200, Cut::Middle), expected);
    }

    #[test]
    fn a_long_line_between_short_ones_is_cut_inside_too() {
        let text = format!("first\n{}\nlast", "x".repeat(100_000));
        let shown = cut(&text, 1_000, Cut::Middle);
        assert!(shown.len() > 990 && shown.contains("... [truncated middle — 96.7KB omitted] ..."), "{shown}");
        assert!(shown.starts_with("first\nxx") && shown.ends_with("xx\nlast"));
    }

    #[test]
    fn a_cut_off_the_end_keeps_the_beginning_alone() {
        insta::assert_snapshot!(cut(&numbered(1000), 80, Cut::End), @r"
        line 0001
        line 0002
        line 0003
        ... [truncated end — 9.7KB omitted] ...
        ");
    }

    #[test]
    fn any_room_is_kept_to_and_no_character_is_split() {
        for text in [numbered(50), "é😀".repeat(300), "\n".repeat(1_000)] {
            for room in 0..400 {
                cut(&text, room, Cut::Middle);
                cut(&text, room, Cut::End);
            }
        }
        assert_eq!(cut("é😀x", 5, Cut::Middle), "é");
        assert_eq!(cut("abc", 0, Cut::Middle), "");
    }
}
