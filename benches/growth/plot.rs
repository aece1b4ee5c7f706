//! A line chart as SVG, and nothing more: a logarithmic axis of sizes, a linear one of ratios.

use std::fmt::Write as _;

/// One line: its name, and its points.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

const COLOURS: [&str; 4] = ["#4269d0", "#efb118", "#ff725c", "#3ca951"];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 100.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;

/// Draws `lines` over `x` from 10^`from` to 10^`to` and `y` from 0 to what fits.
pub(crate) fn draw(title: &str, lines: &[Line], from: i32, to: i32) -> String {
    let highest = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(1.0, f64::max).ceil();
    let across = |x: f64| LEFT + (x.log10() - f64::from(from)) / f64::from((to - from).max(1)) * (WIDTH - LEFT - RIGHT);
    let up = |y: f64| HEIGHT - BOTTOM - y / highest * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"26\" font-size=\"15\">{title}</text>\n"
    );
    for power in from..=to {
        let (x, low, high) = (across(10_f64.powi(power)), HEIGHT - BOTTOM, TOP);
        let label = ["1", "10", "100", "1 k", "10 k", "100 k", "1 M", "10 M"];
        let label = usize::try_from(power).ok().and_then(|power| label.get(power)).unwrap_or(&"");
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.0}\" y1=\"{low}\" x2=\"{x:.0}\" y2=\"{high}\" stroke=\"#eee\"/>\
             <text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{label}</text>",
            low + 20.0
        );
    }
    for quarter in 0..=4 {
        let value = highest * f64::from(quarter) / 4.0;
        let (y, right) = (up(value), WIDTH - RIGHT);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.0}\" x2=\"{right}\" y2=\"{y:.0}\" stroke=\"#ddd\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{value:.2}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<_> = line.points.iter().map(|(x, y)| (across(*x), up(*y))).collect();
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (x, y) in &points {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        if let Some((x, y)) = points.last() {
            let _ =
                writeln!(svg, "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{}</text>", x + 8.0, y + 4.0, line.name);
        }
    }
    svg.push_str("</svg>\n");
    svg
}
