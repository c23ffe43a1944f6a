#include "bench/html_report.h"

#include <gtest/gtest.h>

#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "bench/report_plots.h"
#include "bench/svg_plot.h"

namespace headrace::bench {
namespace {

Row rate(std::string name, double value = 9, double bound = 10) {
  const std::vector<Round> rounds{{value * 0.9, bound}, {value, bound}, {value * 1.1, bound}};
  return rate_row(std::move(name), rounds);
}

Machine machine_with(std::string cpu, std::string disk = "/dev/nvme0n1") {
  Machine machine;
  machine.cpu = std::move(cpu);
  machine.memory_bytes = 25'000'000'000;
  machine.disk = std::move(disk);
  return machine;
}

// A row of no rounds.
Row unmeasured(std::string name) {
  Row row = rate(std::move(name));
  row.samples.clear();
  return row;
}

Timeline some_timeline() {
  return {"step.split", 0.5, {{"load", {{0, 1}, {0.1, 3}, {0.25, 0}}, 3, 0.25, 1'000'000}}};
}

Report everything() {
  Report report;
  for (const char* name : {"io.read.1MiBx8", "io.read.4MiBx8", "io.read.1MiBx32", "io.read.4MiBx32",
                           "copy.up.1MiB", "copy.up.4MiB", "copy.nvme_up.1MiB", "copy.nvme_up.4MiB",
                           "adamw.fp32.1t", "norm.bf16.1t", "adamw.over_loop.1t", "step.split"})
    report.rows.push_back(rate(name));
  report.notes = {"a note", "a table\n  of two lines\n"};
  report.timelines = {some_timeline()};
  return report;
}

// What is wrong with a page's tags; empty: each is closed, in order, and attributes are quoted.
std::string wrong_with(const std::string& page) {
  const std::string body = page.substr(page.find('\n') + 1);  // without <!DOCTYPE html>
  const std::regex tag(R"(<(/?)([a-z0-9]+)((?: [a-zA-Z-]+[0-9]?="[^"<>]*")*)(/?)>)");
  std::vector<std::string> open;
  std::string rest;
  auto end = body.cbegin();
  for (std::sregex_iterator at(body.begin(), body.end(), tag), none; at != none; ++at) {
    rest.append(end, (*at)[0].first);
    end = (*at)[0].second;
    const bool closes = (*at)[1].length() > 0, alone = (*at)[4].length() > 0;
    if (closes && (open.empty() || open.back() != (*at)[2])) return "not open: " + at->str();
    if (closes) open.pop_back();
    if (!closes && !alone) open.push_back((*at)[2]);
  }
  rest.append(end, body.cend());
  if (!open.empty()) return "not closed: " + open.back();
  const std::size_t stray = rest.find_first_of("<");
  if (stray != std::string::npos) return "no tag: " + rest.substr(stray, 60);
  const std::regex ampersand("&(?!(amp|lt|gt|quot);)");
  return std::regex_search(body, ampersand) ? "an & that is not escaped" : "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

std::vector<std::string> titles_of(const Report& report) {
  std::vector<std::string> titles;
  for (const PlotGroup& group : plots_of(report)) titles.push_back(group.title);
  return titles;
}

TEST(HtmlReport, EveryTagIsClosed) {
  const std::string page = to_html("bench all", machine_with("a CPU"), everything());
  EXPECT_EQ(wrong_with(page), "") << page;
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
}

TEST(HtmlReport, NeedsNothingFromElsewhere) {
  const std::string page = to_html("bench all", {}, everything());
  for (const char* word : {"http", "<script", "<link", "<img", "url(", "@import", "src="})
    EXPECT_FALSE(has(page, word)) << word;
}

TEST(HtmlReport, TextIsEscaped) {
  Report report;
  report.rows = {rate("<row> & \"name\"")};
  report.notes = {"<script>alert(1)</script>\x01"};
  const std::string page = to_html("a<b", machine_with("<cpu>", "\"&\""), report);
  EXPECT_EQ(wrong_with(page), "") << page;
  EXPECT_TRUE(has(page, "&lt;row&gt; &amp; &quot;name&quot;")) << page;
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(1)&lt;/script&gt; <")) << page;
  EXPECT_FALSE(has(page, "<cpu>"));
}

TEST(HtmlReport, ShowsRowsNotesAndMachine) {
  Report report;
  report.rows = {rate("disk.read", 9, 0), rate("step.split")};
  report.notes = {"what a reader must know"};
  const std::string page = to_html("bench step", machine_with("a CPU"), report);
  for (const char* part :
       {"<title>headrace bench step</title>", "<th>disk.read</th>",
        "<td>9 GB/s</td><td>10 GB/s</td><td>90.0 %</td><td>10.0 %</td><td>3</td>",
        "what a reader must know", "a CPU", "25.0 GB"})
    EXPECT_TRUE(has(page, part)) << part << page;
  EXPECT_FALSE(has(page, "CPU s/GB"));
}

TEST(HtmlReport, SaysWhichRowsAreNoisy) {
  const std::vector<Round> wild{{5, 10}, {10, 10}, {20, 10}};
  const std::string page = to_html("bench io", {}, {{rate_row("a", wild), rate("b")}, {}});
  EXPECT_EQ(count(page, "class=\"mark\">noisy</td>"), 1) << page;
  EXPECT_EQ(count(page, "class=\"noisy\""), 1) << page;
}

TEST(HtmlReport, OfNothingIsAWholePage) {
  const std::string page = to_html("bench io", {}, {});
  EXPECT_EQ(wrong_with(page), "") << page;
  EXPECT_TRUE(has(page, "Nothing was measured."));
  EXPECT_FALSE(has(page, "<svg"));
}

TEST(HtmlReport, NumbersThatAreNoneDoNoHarm) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Report report;
  report.rows = {rate("io.read.1MiBx8", infinity), rate("io.read.2MiBx8", 0, 0), rate("step", 0),
                 unmeasured("io.read.0KiBx8"), unmeasured("io.read.x")};
  report.timelines = {{"step", 0, {}}, {"step", 0, some_timeline().activities}};
  const std::string page = to_html("bench io", {}, report);
  EXPECT_EQ(wrong_with(page), "") << page;
  EXPECT_FALSE(has(page, "\"nan")) << page;
}

TEST(ReportPlots, EachIsThereWhenItsRowsAre) {
  EXPECT_EQ(titles_of(everything()),
            (std::vector<std::string>{"Bandwidth over the size of a block",
                                      "Bandwidth over the size of a move", "One step over time",
                                      "Rate beside the floor of memory",
                                      "Update beside those of others", "Percent of the bound"}));
  EXPECT_EQ(titles_of({{rate("norm.bf16.2t")}, {}}),
            (std::vector<std::string>{"Rate beside the floor of memory"}));
  EXPECT_TRUE(titles_of({{rate("disk.read", 9, 0)}, {}}).empty());
}

TEST(ReportPlots, EachDepthHasALineAndEachDirectionAPlot) {
  Report report = everything();
  report.rows.push_back(rate("io.write.1MiBx8"));
  report.rows.push_back(rate("io.write.2MiBx8", 20));
  const PlotGroup group = plots_of(report).front();
  ASSERT_EQ(group.lines.size(), 2u);
  ASSERT_EQ(group.lines[0].lines.size(), 2u);
  EXPECT_EQ(group.lines[0].title, "read");
  EXPECT_EQ(group.lines[0].lines[1].name, "32 in flight");
  EXPECT_EQ(group.lines[0].lines[1].points[1].label, "4MiB");
  EXPECT_EQ(group.lines[0].top, group.lines[1].top);
  EXPECT_EQ(group.lines[1].title, "write");
}

TEST(ReportPlots, DepthsThatFollowFromTheSizeMakeOneLine) {
  const Report report{{rate("io.read.4MiBx8"), rate("io.read.1MiBx32")}, {}};
  const LinePlot plot = plots_of(report).front().lines.front();
  ASSERT_EQ(plot.lines.size(), 1u);
  EXPECT_EQ(plot.lines[0].points[0].label, "1MiB x 32");
  EXPECT_EQ(plot.lines[0].points[1].label, "4MiB x 8");
}

TEST(ReportPlots, OneSizeAloneIsABar) {
  const Report report{{rate("io.read.4MiBx8"), rate("copy.up.4MiB")}, {}};
  const std::vector<PlotGroup> groups = plots_of(report);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].title, "Percent of the bound");
  EXPECT_EQ(groups[0].bars.at(0).bars.size(), 2u);
}

TEST(ReportPlots, WhiskersAreTheQuartilesOfTheRoundsInTheUnitOfTheRow) {
  const PlotGroup group = plots_of({{rate("adamw.fp32.1t", 20, 40)}, {}}).front();
  const Bar& bar = group.bars.at(0).bars.at(0);
  EXPECT_DOUBLE_EQ(bar.value.low, 19);
  EXPECT_DOUBLE_EQ(bar.value.median, 20);
  EXPECT_DOUBLE_EQ(bar.value.high, 21);
  EXPECT_DOUBLE_EQ(bar.bound, 40);
  EXPECT_EQ(bar.text, "20 of 40, 50.0 %");
}

TEST(SvgPlot, ABarThatIsTooLongEndsInATip) {
  BarPlot plot{"t", "%", 200, {{"long", {1000, 1000, 1000}, 100, "1000 %"}}};
  EXPECT_TRUE(has(svg(plot), "l8 8l-8 8")) << svg(plot);
  plot.most = 0;
  EXPECT_FALSE(has(svg(plot), "l8 8l-8 8")) << svg(plot);
}

TEST(SvgPlot, ATimelineTellsBytesAndTime) {
  const std::string drawn = svg(some_timeline());
  EXPECT_TRUE(has(drawn, "1.00 MB, 50 % of the time")) << drawn;
  EXPECT_TRUE(has(drawn, "at most 3 at once")) << drawn;
}

}  // namespace
}  // namespace headrace::bench
