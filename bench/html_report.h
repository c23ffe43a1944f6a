// A benchmark's report as one page of HTML that needs nothing else: no script, no network.
//
// Pure, from any thread. All text is escaped. Every element is closed, so the page is XML too.
#pragma once

#include <string>
#include <string_view>

#include "bench/machine.h"
#include "bench/report.h"

namespace headrace::bench {

// `command`: what was run, such as "bench io". The plots that the rows allow, the table of rows,
// the notes, and the facts of the machine.
std::string to_html(std::string_view command, const Machine& machine, const Report& report);

}  // namespace headrace::bench
