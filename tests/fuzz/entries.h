// What is fuzzed: each takes any bytes, must neither crash nor hang, and aborts when what it calls
// does not keep its word. True: the bytes were accepted.
#pragma once

#include "io/bytes.h"

namespace headrace::fuzz {

// A manifest, as it stands and with its checksums made right.
bool manifest(ConstBytes input);
// A checkpoint that an engine loads: 4 bytes of the manifest's size (odd: its checksums are made
// right), the manifest, the data.
bool checkpoint(ConstBytes input);
// "64KiB" and the like, by each parser of them.
bool sizes(ConstBytes input);
// Arguments of train_gpt, one a line.
bool command_line(ConstBytes input);

}  // namespace headrace::fuzz
