// SPDX-License-Identifier: Apache-2.0
// Converter: images as files have them, decoded by libtenon_image.
#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

using N = NodeContext;

Values image_decoder(N& n) {
  const Expr bytes = n.in(0);
  if (n.dtype(0) != u8 || n.rank(0) != 1) n.malformed("ImageDecoder takes a vector of bytes");
  const std::string format = n.attr_string("pixel_format", "RGB");
  const int64_t order = format == "RGB" ? 0 : format == "BGR" ? 1 : format == "Grayscale" ? 2 : -1;
  if (order < 0) n.malformed(fmt::format("'pixel_format' of ImageDecoder is {}", in_quotes(format)));
  const Expr pixels =
      n.packed("tenon.image.decode", {bytes, n.number(order)}, graph::tensor_type_unknown(3, u8));
  if (n.importer.forks()) return {pixels};
  return {n.importer.builder.emit_match_cast(
      pixels,
      graph::tensor_type({tir::var("height", i64), tir::var("width", i64), PrimExpr(order == 2 ? 1 : 3)}, u8),
      "pixels")};
}
const RegisterConverter r("ImageDecoder", {20}, image_decoder, "BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP");

}  // namespace
}  // namespace tenon::onnx
