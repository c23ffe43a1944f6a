// Ctrl-C, as a question that the training loop asks between two steps.
#pragma once

namespace train_gpt {

// From now on the first Ctrl-C only sets what interrupted() tells; a second one ends the process.
void catch_interrupts();
bool interrupted();

}  // namespace train_gpt
