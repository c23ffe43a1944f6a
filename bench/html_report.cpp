#include "bench/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/report_plots.h"
#include "bench/svg_plot.h"
#include "io/bytes.h"

namespace headrace::bench {
namespace {

constexpr std::string_view kStyle = R"(@page { size: A4; margin: 14mm; }
* { box-sizing: border-box; }
body { font: 15px/1.45 sans-serif; color: #111; background: #fff; max-width: 60rem;
  margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 0.2rem; }
h3 { font-size: 1rem; margin: 0.9rem 0 0.3rem; } p { margin: 0.2rem 0 0.6rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0.6rem 1.6rem; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
.rows { width: 100%; } thead { display: table-header-group; } tr { break-inside: avoid; }
th { text-align: left; font-weight: 600; } thead th { border-bottom: 1.5px solid #111; }
th, td { padding: 0.22rem 0.6rem 0.22rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
.rows tbody th { font-weight: 400; }
.rows th + th, .rows td { text-align: right; white-space: nowrap; }
.rows td.mark { text-align: left; padding-left: 0.6rem; font-weight: 600; }
pre { font: inherit; white-space: pre-wrap; margin: 0 0 0.5rem; }
pre.drawn { font: 12px/1.35 monospace; }
h2, h3, h2 + p { break-after: avoid; } figure { margin: 0; break-inside: avoid; }
@media print { body { padding: 0; max-width: none; font-size: 12px; }
  * { print-color-adjust: exact; } }
@media (max-width: 40rem) { .pair { grid-template-columns: 1fr; } }
)";

// <tag>text</tag>
std::string element(std::string_view tag, std::string_view text) {
  return fmt::format("<{0}>{1}</{0}>", tag, escape_markup(text));
}

template <class Plot>
std::string figure(std::string_view title, const Plot& plot) {
  const std::string heading = title.empty() ? "" : element("h3", title) + "\n";
  return fmt::format("<figure>\n{}{}</figure>\n", heading, svg(plot));
}

std::string html_of(const PlotGroup& group) {
  std::string html =
      fmt::format("<section>\n{}\n{}\n", element("h2", group.title), element("p", group.text));
  if (!group.lines.empty()) {
    html += "<div class=\"pair\">\n";
    for (const LinePlot& plot : group.lines) html += figure(plot.title, plot);
    html += "</div>\n";
  }
  for (const BarPlot& plot : group.bars) html += figure("", plot);
  for (const Timeline& timeline : group.timelines) html += figure(timeline.name, timeline);
  return html + "</section>\n";
}

// CPU time only where a row has it, as in the table of the terminal.
std::string line_of(const Cells& cells, bool cpu, std::string_view tag, std::string_view mark) {
  constexpr std::size_t kCpu = 5;
  std::string html = "<tr>" + element("th", cells.front());
  for (std::size_t i = 1; i < cells.size(); ++i)
    if (i != kCpu || cpu) html += element(tag, cells[i]);
  return fmt::format("{}<{} class=\"mark\">{}</{}></tr>\n", html, tag, mark, tag);
}

std::string table_of(std::span<const Row> rows) {
  std::string html = "<section>\n" + element("h2", "All rows") + "\n";
  if (rows.empty()) return html + element("p", "Nothing was measured.") + "\n</section>\n";
  const bool cpu = counts_cpu(rows);
  html += element("p",
                  "Medians over rounds. Each value stands beside a bound of the same minute; the "
                  "spread is the distance of the quartiles over the median. Above 25 % a row is "
                  "noisy: measure it again before it is quoted.");
  html += "\n<table class=\"rows\">\n<thead>" + line_of(titles(), cpu, "th", "") + "</thead>\n";
  html += "<tbody>\n";
  for (const Row& row : rows) html += line_of(cells(row), cpu, "td", noisy(row) ? "noisy" : "");
  return html + "</tbody>\n</table>\n</section>\n";
}

// Several lines are a table drawn with spaces.
std::string notes_of(std::span<const std::string> notes) {
  if (notes.empty()) return "";
  std::string html = "<section>\n" + element("h2", "Notes") + "\n";
  for (const std::string& note : notes) {
    const bool drawn = note.find('\n') != std::string::npos;
    html += fmt::format("<pre{}>{}</pre>\n", drawn ? " class=\"drawn\"" : "", escape_markup(note));
  }
  return html + "</section>\n";
}

std::string html_of(const Machine& machine) {
  const std::pair<std::string_view, std::string> facts[] = {
      {"CPU", machine.cpu},
      {"cores", fmt::format("{}", machine.cores)},
      {"memory", format_bytes(machine.memory_bytes)},
      {"disk", machine.disk},
      {"file system", machine.file_system},
      {"kernel", machine.kernel},
      {"compiler", machine.compiler},
      {"headrace", machine.version},
      {"date", machine.date}};
  std::string html = "<section>\n" + element("h2", "Machine") + "\n<table>\n";
  for (const auto& [name, fact] : facts)
    html += fmt::format("<tr>{}{}</tr>\n", element("th", name), element("td", fact));
  return html + "</table>\n</section>\n";
}

}  // namespace

std::string to_html(std::string_view command, const Machine& machine, const Report& report) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width\"/>\n"
      "<title>headrace {0}</title>\n<style>\n{1}{2}</style>\n</head>\n<body>\n<h1>headrace "
      "{0}</h1>\n",
      escape_markup(command), kStyle, plot_style());
  html += element("p", fmt::format("{}; {}, {} cores; {} on {}", machine.date, machine.cpu,
                                   machine.cores, machine.file_system, machine.disk)) +
          "\n";
  for (const PlotGroup& group : plots_of(report)) html += html_of(group);
  html += table_of(report.rows) + notes_of(report.notes) + html_of(machine);
  return html + "</body>\n</html>\n";
}

}  // namespace headrace::bench
