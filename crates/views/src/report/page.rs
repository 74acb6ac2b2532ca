//! The report as a page that needs nothing else: no script, no font, no picture from elsewhere.

use super::Report;
use super::text::{headline, sections};
use crate::svg::card_map_svg;
use crate::xml::escape;

/// Nothing may be loaded, whatever should get into the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "\
body{font:14px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;\
color:#1f2328;background:#fff;margin:2rem auto;max-width:1180px;padding:0 1rem}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .2rem}\
p{margin:.3rem 0;color:#59636e}p.answer{font-size:1.05rem;color:#1f2328}\
.wide{overflow-x:auto}table{border-collapse:collapse;margin-top:.5rem}\
th,td{text-align:left;padding:.25rem .9rem .25rem 0;border-bottom:1px solid #d0d7de;\
vertical-align:top;font-variant-numeric:tabular-nums}\
th{font-weight:600;color:#59636e;font-size:.8rem}svg{max-width:100%;height:auto;margin-top:1rem}\
@media print{body{margin:0;max-width:none}h2{break-after:avoid}tr{break-inside:avoid}}";

/// The report as a page.
pub fn report_page(report: &Report<'_>) -> String {
    let parts = sections(report, true).into_iter().map(|section| {
        format!(
            "<h2>{}</h2>\n<p>{}</p>\n<div class=\"wide\">\n{}</div>\n",
            escape(section.title),
            escape(section.about),
            section.table.html()
        )
    });
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>divvy report {time}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>GPU report</h1>\n<p>{time}</p>\n<p class=\"answer\">{}</p>\n{}{}</body>\n</html>\n",
        escape(POLICY),
        escape(&headline(report)),
        card_map_svg(&report.map),
        parts.collect::<String>(),
        time = escape(&report.generated_at),
    )
}
