// Dense row-major matrices as views, and their products through a CBLAS.
//
// matrix.cpp is the only file of the trainer that sees the BLAS. A product has the same bits in
// every run with the same number of BLAS threads; another number of threads may add in another
// order.
#pragma once

#include <cstddef>
#include <span>

namespace train_gpt {

template <class T>
struct BasicMatrix {
  std::span<T> values;  // at least (rows - 1) * stride + columns
  std::size_t rows = 0, columns = 0;
  std::size_t stride = 0;  // elements from one row to the next

  std::span<T> row(std::size_t index) const { return values.subspan(index * stride, columns); }
  BasicMatrix row_range(std::size_t first, std::size_t count) const {
    return {values.subspan(first * stride), count, columns, stride};
  }
  BasicMatrix column_range(std::size_t first, std::size_t count) const {
    return {values.subspan(first), rows, count, stride};
  }
  operator BasicMatrix<const T>() const { return {values, rows, columns, stride}; }
};

using Matrix = BasicMatrix<float>;
using ConstMatrix = BasicMatrix<const float>;

inline Matrix matrix(std::span<float> values, std::size_t rows, std::size_t columns) {
  return {values, rows, columns, columns};
}
inline ConstMatrix matrix(std::span<const float> values, std::size_t rows, std::size_t columns) {
  return {values, rows, columns, columns};
}

// A matrix as one side of a product, as it stands or transposed.
struct Operand {
  Operand(Matrix m) : matrix(m) {}
  Operand(ConstMatrix m) : matrix(m) {}
  Operand(ConstMatrix m, bool flip) : matrix(m), transposed(flip) {}

  ConstMatrix matrix;
  bool transposed = false;
};
inline Operand transposed(ConstMatrix m) { return {m, true}; }

struct ProductOptions {
  float scale = 1;
  bool add = false;  // to what `out` holds, instead of replacing it
};
void multiply(Matrix out, Operand a, Operand b, ProductOptions options = {});

// Of the whole process, until called again.
void set_blas_threads(int count);

}  // namespace train_gpt
