#include "bench/report.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/bench/rows.h"

namespace headrace::bench {
namespace {

TEST(Quartiles, OfFiveSamplesAreTheOnesBetween) {
  const std::vector<double> samples{50, 10, 40, 20, 30};
  const Quartiles found = quartiles(samples);
  EXPECT_EQ(found.low, 20);
  EXPECT_EQ(found.median, 30);
  EXPECT_EQ(found.high, 40);
  EXPECT_DOUBLE_EQ(found.spread(), 20.0 / 30.0);
}

TEST(Quartiles, OfFourSamplesLieBetweenThem) {
  const std::vector<double> samples{1, 2, 3, 4};
  const Quartiles found = quartiles(samples);
  EXPECT_DOUBLE_EQ(found.low, 1.75);
  EXPECT_DOUBLE_EQ(found.median, 2.5);
  EXPECT_DOUBLE_EQ(found.high, 3.25);
}

TEST(Quartiles, OfOneSampleAreThatSample) {
  const std::vector<double> samples{7};
  EXPECT_EQ(quartiles(samples).low, 7);
  EXPECT_EQ(quartiles(samples).high, 7);
  EXPECT_EQ(quartiles(samples).spread(), 0);
}

TEST(Quartiles, OfNothingAreZero) {
  EXPECT_EQ(quartiles({}).median, 0);
  EXPECT_EQ(quartiles({}).spread(), 0);
}

TEST(Row, RatioOfARateIsTheMedianOfTheRoundsOwnRatios) {
  const std::vector<Round> rounds{{9, 10}, {4, 5}, {2, 2}};  // 0.9, 0.8, 1.0
  const Row row = rate_row("adamw.fp32.1t", rounds);
  EXPECT_EQ(row.unit, "GB/s");
  EXPECT_EQ(row.value, 4);
  EXPECT_EQ(row.bound, 5);
  EXPECT_DOUBLE_EQ(row.ratio, 0.9);
  EXPECT_EQ(row.samples, (std::vector<double>{9.0 / 10, 4.0 / 5, 1}));
}

TEST(Row, RatioOfATimeIsHigherWhenTheTimeIsShorter) {
  const std::vector<Round> rounds{{2.0, 1.0}};
  EXPECT_DOUBLE_EQ(time_row("step.fp32", rounds).ratio, 0.5);
  EXPECT_EQ(time_row("step.fp32", rounds).unit, "s");
}

TEST(Row, WithoutABoundHasItsValuesAsSamples) {
  const std::vector<Round> rounds{{3, 0}, {1, 0}, {2, 0}};
  const Row row = rate_row("disk.read", rounds);
  EXPECT_EQ(row.value, 2);
  EXPECT_EQ(row.bound, 0);
  EXPECT_EQ(row.ratio, 0);
  EXPECT_EQ(row.samples, (std::vector<double>{3, 1, 2}));
}

TEST(Row, WithWideQuartilesIsCalledNoisy) {
  const std::vector<Round> calm{{10, 10}, {11, 10}, {10, 10}};
  const std::vector<Round> wild{{5, 10}, {10, 10}, {20, 10}};
  EXPECT_FALSE(noisy(rate_row("a", calm)));
  EXPECT_TRUE(noisy(rate_row("a", wild)));
  const std::vector<Row> rows{rate_row("a", wild)};
  EXPECT_NE(to_table(rows).find("noisy"), std::string::npos);
}

TEST(Report, JsonHasTheSchemaOfTheBenchmarks) {
  const std::vector<Round> rounds{{3, 4}};
  const std::vector<Row> rows{rate_row("adamw.fp32.1t", rounds)};
  EXPECT_EQ(to_json(some_machine(), rows), R"({
  "schema": "headrace.bench/1",
  "machine": {
    "cpu": "A \"quoted\" CPU",
    "cores": 2,
    "memory_bytes": 25000000000,
    "kernel": "6.1.0",
    "disk": "/dev/nvme0n1",
    "file_system": "ext4",
    "date": "2026-01-02T03:04:05Z",
    "version": "0.1.0",
    "compiler": "gcc 12.2.0"
  },
  "rows": [
    {
      "name": "adamw.fp32.1t",
      "value": 3.0,
      "unit": "GB/s",
      "bound": 4.0,
      "ratio": 0.75,
      "spread": 0.0,
      "cpu_seconds_per_gb": null,
      "samples": [
        0.75
      ],
      "values": [
        3.0
      ],
      "bounds": [
        4.0
      ]
    }
  ]
}
)");
}

TEST(Report, JsonOfARowWithoutABoundHasNullForBoundAndRatio) {
  const std::vector<Round> rounds{{3, 0}};
  const std::vector<Row> rows{rate_row("disk.read", rounds)};
  const std::string json = to_json(some_machine(), rows);
  EXPECT_NE(json.find("\"bound\": null"), std::string::npos);
  EXPECT_NE(json.find("\"ratio\": null"), std::string::npos);
  EXPECT_NE(json.find("\"bounds\": []"), std::string::npos);
}

TEST(Report, JsonSurvivesTextThatIsNotUtf8) {
  Machine machine = some_machine();
  machine.disk = "/dev/\xff";
  EXPECT_NE(to_json(machine, {}).find("\"rows\": []"), std::string::npos);
}

TEST(Report, TableShowsValueBoundAndPercentSideBySide) {
  const std::vector<Round> rounds{{3, 4}};
  const std::vector<Row> rows{rate_row("adamw.fp32.1t", rounds)};
  EXPECT_EQ(to_table(rows),
            "row                   value         bound  of bound   spread  rounds\n"
            "adamw.fp32.1t        3 GB/s        4 GB/s    75.0 %    0.0 %       1\n");
}

TEST(Report, TableShowsCpuTimeWhereARowHasIt) {
  const std::vector<Round> rounds{{3, 4, 0.025}};
  const std::vector<Row> rows{rate_row("read", rounds), rate_row("copy", {})};
  EXPECT_EQ(to_table(rows),
            "row          value         bound  of bound   spread  CPU s/GB  rounds\n"
            "read        3 GB/s        4 GB/s    75.0 %    0.0 %     0.025       1\n"
            "copy             -             -         -    0.0 %         -       0\n");
}

TEST(Machine, MountOfAPathIsTheLongestMountPointAboveIt) {
  const std::string_view mounts =
      "/dev/vda / ext4 rw 0 0\n"
      "/dev/nvme0n1 /data xfs rw 0 0\n"
      "tmpfs /data/tmp tmpfs rw 0 0\n";
  EXPECT_EQ(mount_of("/data/run/1", mounts).device, "/dev/nvme0n1");
  EXPECT_EQ(mount_of("/data/tmp", mounts).type, "tmpfs");
  EXPECT_EQ(mount_of("/database", mounts).device, "/dev/vda");
  EXPECT_EQ(mount_of("/data", "").type, "unknown");
}

TEST(Machine, ALaterMountOnTheSamePointHidesTheEarlierOne) {
  EXPECT_EQ(mount_of("/a/b", "one /a ext4 rw\ntwo /a xfs rw\n").device, "two");
}

TEST(Machine, FactsOfThisMachineAreFilledIn) {
  const Machine machine = this_machine("/");
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 0u);
  EXPECT_NE(machine.file_system, "unknown");
  EXPECT_EQ(machine.date.size(), sizeof "2000-01-01T00:00:00Z" - 1);
  EXPECT_FALSE(machine.version.empty());
  EXPECT_FALSE(machine.compiler.empty());
}

}  // namespace
}  // namespace headrace::bench
