#include "bench/compare.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/report_file.h"
#include "tests/bench/rows.h"
#include "tests/support/temporary_folder.h"

namespace headrace::bench {
namespace {

// Rates whose bound is 10 in every round.
Row rates(const std::string& name, const std::vector<double>& values) {
  std::vector<Round> rounds;
  for (const double value : values) rounds.push_back({value, 10});
  return rate_row(name, rounds);
}

Row without_bound(Row (*kind)(std::string, std::span<const Round>), const std::string& name,
                  const std::vector<double>& values) {
  std::vector<Round> rounds;
  for (const double value : values) rounds.push_back({value, 0});
  return kind(name, rounds);
}

class CompareTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
    return folder_.path() / name;
  }

  std::filesystem::path file(const std::string& name, const std::vector<Row>& rows,
                             const Machine& machine = some_machine()) const {
    return file(name, to_json(machine, rows));
  }

  // What read_report says of this text.
  std::string refusal(const std::string& text) const {
    const Result<ReportFile> report = read_report(file("bad.json", text));
    if (report.ok()) return "accepted";
    EXPECT_EQ(report.status().code(), Code::invalid);
    EXPECT_NE(report.status().message().find("bad.json"), std::string::npos);
    return std::string(report.status().message());
  }

  // A good report in which one text stands for another.
  std::string with(const std::string& text, const std::string& other) const {
    std::string good = to_json(some_machine(), std::vector<Row>{rates("io.read", {9, 10})});
    const std::size_t at = good.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    return good.replace(at, text.size(), other);
  }

  Comparison compared(const std::vector<Row>& a, const std::vector<Row>& b) const {
    Result<Comparison> comparison = compare(file("a.json", a), file("b.json", b));
    EXPECT_TRUE(comparison.ok()) << comparison.status().to_string();
    return comparison.ok() ? *comparison : Comparison();
  }

 private:
  TemporaryFolder folder_;
};

void expect_message(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
}

using Compare = CompareTest;
using ReportFiles = CompareTest;

TEST_F(ReportFiles, WhatWasWrittenIsReadBackWhole) {
  const std::vector<Row> rows{rates("io.read", {9, 10, 8}),
                              without_bound(time_row, "save", {1.5, 2})};
  const Result<ReportFile> report = read_report(file("a.json", rows));
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(to_json(report->machine, report->rows), to_json(some_machine(), rows));
}

TEST_F(ReportFiles, SamplesThatWereInfiniteAreLeftOut) {
  const Result<ReportFile> report = read_report(file("a.json", with("0.9,", "null,")));
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->rows[0].samples, std::vector<double>{1.0});
}

TEST_F(ReportFiles, FieldsOfLaterVersionsArePassedOverAndEarlierOnesLackCpuTime) {
  EXPECT_EQ(refusal(with("\"rows\"", "\"notes\": [], \"rows\"")), "accepted");
  EXPECT_EQ(refusal(with("\"cpu_seconds_per_gb\"", "\"other\"")), "accepted");
}

TEST_F(ReportFiles, WhatIsNoReportIsRefused) {
  expect_message(refusal(""), "is not JSON");
  expect_message(refusal("{\"schema\": \"headrace.bench/1\","), "is not JSON");
  expect_message(refusal("{\"schema\": \"\xff\"}"), "is not JSON");
  expect_message(refusal("[]"), "not an object");
  expect_message(refusal("{}"), "schema is missing");
  expect_message(refusal(with("headrace.bench/1", "headrace.bench/2")), "headrace.bench/2");
  expect_message(refusal(with("\"machine\"", "\"engine\"")), "machine is missing");
  expect_message(refusal("{\"schema\": \"headrace.bench/1\", \"machine\": 3}"),
                 "machine is not an object");
}

TEST_F(ReportFiles, RefusalNamesTheField) {
  expect_message(refusal(with("\"kernel\"", "\"colonel\"")), "machine.kernel is missing");
  expect_message(refusal(with("\"cores\": 2", "\"cores\": -2")),
                 "machine.cores is not a whole number");
  expect_message(refusal(with("\"cores\": 2", "\"cores\": 99999999999")),
                 "machine.cores is not a whole number");
  expect_message(refusal(with("\"cpu\": \"A", "\"cpu\": \"\\u001b[2J")),
                 "machine.cpu has control characters");
  expect_message(refusal(with("\"unit\": \"GB/s\"", "\"unit\": null")), "rows[0].unit is not text");
  expect_message(refusal(with("\"bound\": 10.0", "\"bound\": \"much\"")),
                 "rows[0].bound is not a number");
  expect_message(refusal(with("\"value\": 9.5", "\"value\": -1")), "rows[0].value is below 0");
  expect_message(refusal(with("0.9,", "{},")), "rows[0].samples[0] is not a number");
  expect_message(refusal(with("0.9,", "1e999,")), "is not JSON");
}

TEST_F(ReportFiles, TwoRowsOfOneNameAreRefused) {
  const std::vector<Row> rows{rates("io.read", {9}), rates("io.read", {8})};
  expect_message(refusal(to_json(some_machine(), rows)), "rows[1].name is there twice: io.read");
}

TEST_F(ReportFiles, NeitherSizeNorDepthOfAFileDoesHarm) {
  expect_message(refusal(std::string(kLargestReport + 1, ' ')), "is larger than");
  expect_message(refusal(std::string(kLargestReport, '[')), "nested too deeply");
  expect_message(refusal(std::string(20, '[') + std::string(20, ']')), "not an object");
  const std::string brackets(100, '[');  // in text they are no depth
  EXPECT_EQ(refusal(with("CPU", "\\\"" + brackets)), "accepted");
}

TEST_F(ReportFiles, WhatCannotBeReadIsRefused) {
  const auto gone = file("a.json", "").parent_path() / "gone.json";
  expect_message(std::string(read_report(gone).status().message()), "gone.json: cannot be opened");
  EXPECT_EQ(read_report(gone.parent_path()).status().code(), Code::invalid);  // a folder
}

TEST_F(Compare, RowsWithABoundAreComparedByTheirRatios) {
  const Comparison found = compared({rates("io.read", {8, 8, 8})}, {rates("io.read", {9, 9, 9})});
  ASSERT_EQ(found.changes.size(), 1u);
  EXPECT_DOUBLE_EQ(found.changes[0].a, 0.8);
  EXPECT_DOUBLE_EQ(found.changes[0].b, 0.9);
  EXPECT_EQ(found.changes[0].unit, "of bound");
  EXPECT_DOUBLE_EQ(found.changes[0].ratio.median, 1.125);
}

TEST_F(Compare, TimesAreInvertedAndRatesAreNot) {
  const Comparison found =
      compared({without_bound(time_row, "save", {2}), without_bound(rate_row, "read", {2})},
               {without_bound(time_row, "save", {4}), without_bound(rate_row, "read", {4})});
  ASSERT_EQ(found.changes.size(), 2u);
  EXPECT_DOUBLE_EQ(found.changes[0].ratio.median, 0.5);
  EXPECT_DOUBLE_EQ(found.changes[1].ratio.median, 2);
}

TEST_F(Compare, QuartilesOfTheRatioAreTheOnesFurthestApart) {
  const Comparison found = compared({rates("r", {4, 5, 6, 7, 8})}, {rates("r", {2, 3, 4, 5, 6})});
  ASSERT_EQ(found.changes.size(), 1u);  // quartiles 5 6 7 and 3 4 5
  EXPECT_DOUBLE_EQ(found.changes[0].ratio.low, 3.0 / 7);
  EXPECT_DOUBLE_EQ(found.changes[0].ratio.median, 4.0 / 6);
  EXPECT_DOUBLE_EQ(found.changes[0].ratio.high, 1);
  EXPECT_TRUE(found.changes[0].noisy);
}

TEST_F(Compare, ARowHasRegressedWhenItIsWorseAndQuartilesAreApart) {
  const Comparison worse = compared({rates("r", {10, 10})}, {rates("r", {9, 9})});
  EXPECT_TRUE(regressed(worse, 5));
  EXPECT_FALSE(regressed(worse, 15));
  const Comparison unsure = compared({rates("r", {5, 10, 15})}, {rates("r", {5, 7, 15})});
  EXPECT_FALSE(regressed(unsure, 5));
  const Comparison better = compared({rates("r", {9, 9})}, {rates("r", {10, 10})});
  EXPECT_FALSE(regressed(better, 0));
}

TEST_F(Compare, RowsOfOneFileAndOtherMachinesAreNamed) {
  Machine other = some_machine();
  other.disk = "/dev/sda";
  other.date = "2026-02-02T03:04:05Z";
  const auto a = file("a.json", {rates("both", {9}), rates("old", {9})});
  const auto b = file("b.json", {rates("both", {9}), rates("new", {9})}, other);
  const Result<Comparison> found = compare(a, b);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->a.alone, std::vector<std::string>{"old"});
  EXPECT_EQ(found->b.alone, std::vector<std::string>{"new"});
  EXPECT_EQ(found->machines, std::vector<std::string>{"disk: /dev/nvme0n1 in A, /dev/sda in B"});
}

TEST_F(Compare, RowsThatSayNothingAreNamedWithTheReason) {
  const Comparison found =
      compared({rates("fine", {9}), rates("bound", {9}), rates("empty", {}), rates("unit", {9})},
               {rates("fine", {9}), without_bound(rate_row, "bound", {9}), rates("empty", {}),
                time_row("unit", std::vector<Round>{{1, 1}})});
  EXPECT_EQ(found.changes.size(), 1u);
  EXPECT_EQ(found.not_comparable,
            (std::vector<std::string>{"bound: only A has a bound", "empty: nothing was measured",
                                      "unit: GB/s in A, s in B"}));
}

TEST_F(Compare, ReportsWithoutARowInBothAreRefused) {
  const Result<Comparison> found =
      compare(file("a.json", {rates("x", {9})}), file("b.json", {rates("y", {9})}));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::invalid);
}

TEST_F(Compare, TableSaysWhatChanged) {
  Comparison found = compared(
      {rates("io.read", {8, 8}), without_bound(time_row, "save", {1, 2, 3}), rates("x", {1})},
      {rates("io.read", {10, 10}), without_bound(time_row, "save", {4, 4, 4}), rates("y", {1})});
  found.a.path = "a.json";
  found.b.path = "b.json";
  EXPECT_EQ(to_table(found),
            "A: a.json (headrace 0.1.0, 2026-01-02T03:04:05Z)\n"
            "B: b.json (headrace 0.1.0, 2026-01-02T03:04:05Z)\n"
            "row                 A             B  B over A      quartiles\n"
            "io.read        80.0 %       100.0 %     1.250    1.250-1.250  better\n"
            "save              2 s           4 s     0.500    0.375-0.625  worse  noisy\n"
            "only in A: x\n"
            "only in B: y\n");
}

}  // namespace
}  // namespace headrace::bench
