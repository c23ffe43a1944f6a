#include "examples/train_gpt/matrix.h"

#include <cblas.h>

namespace train_gpt {
namespace {

blasint dimension(std::size_t value) { return static_cast<blasint>(value); }

CBLAS_TRANSPOSE order(const Operand& operand) {
  return operand.transposed ? CblasTrans : CblasNoTrans;
}

}  // namespace

void multiply(Matrix out, Operand a, Operand b, ProductOptions options) {
  const std::size_t inner = a.transposed ? a.matrix.rows : a.matrix.columns;
  if (out.rows == 0 || out.columns == 0) return;
  cblas_sgemm(CblasRowMajor, order(a), order(b), dimension(out.rows), dimension(out.columns),
              dimension(inner), options.scale, a.matrix.values.data(), dimension(a.matrix.stride),
              b.matrix.values.data(), dimension(b.matrix.stride), options.add ? 1.0F : 0.0F,
              out.values.data(), dimension(out.stride));
}

void set_blas_threads(int count) { openblas_set_num_threads(count); }

}  // namespace train_gpt
