// A bit that flips on the way in while a checkpoint is loaded, wherever it strikes: the file is
// read twice, to be verified and to be used, and neither reading may let it pass.
#include "tests/runtime/faulty_model.h"

namespace headrace {
namespace {

using namespace small;

class CheckpointFlip : public ::testing::TestWithParam<Place> {};

std::string name_of_place(const ::testing::TestParamInfo<Place>& place) {
  constexpr const char* kNames[] = {"dram", "hbm", "nvme", "mixed"};
  return kNames[static_cast<int>(place.param)];
}

INSTANTIATE_TEST_SUITE_P(, CheckpointFlip,
                         ::testing::Values(Place::dram, Place::nvme, Place::mixed), name_of_place);

TEST_P(CheckpointFlip, IsReadAgainOrAnErrorButNeverLoaded) {
  Faulty faulty(GroundKind::simulated);
  const auto engine = faulty.open(faulty.options(GetParam()));
  ASSERT_TRUE(train(*engine, 0, 2).ok());
  ASSERT_TRUE(engine->save("/disk0/checkpoint").ok());
  const std::uint64_t saved = hash(*engine).value();
  ASSERT_TRUE(train(*engine, 2, 3).ok());
  const std::uint64_t later = hash(*engine).value();
  int refused = 0, passed = 0;
  for (std::uint64_t reading = 0;; ++reading) {
    const std::uint64_t before = faulty.script->struck();
    Fault fault;
    fault.kind = FaultKind::bit_flip;
    fault.first = faulty.script->seen(Direction::read) + reading;
    fault.amount = 12'345 + 8 * reading;
    faulty.script->add(fault);
    const auto loaded = engine->load("/disk0/checkpoint");
    const bool struck = faulty.script->struck() > before;
    faulty.script->clear();
    ++(loaded.ok() ? passed : refused);
    const Status how = loaded.status();
    EXPECT_TRUE(how.ok() || how.code() == Code::corrupt) << how.to_string();
    ASSERT_EQ(hash(*engine).value(), how.ok() ? saved : later) << reading << how.to_string();
    if (!struck) break;  // there is no such reading
    ASSERT_TRUE(engine->load("/disk0/checkpoint").ok());
    ASSERT_TRUE(train(*engine, 2, 3).ok());
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(passed, 10);
}

}  // namespace
}  // namespace headrace
