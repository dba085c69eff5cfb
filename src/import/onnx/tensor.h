// SPDX-License-Identifier: Apache-2.0
// Tensors and types of the file format: element types, payloads in all their encodings, external data, and
// the parsed model with what is needed to find its parts.
#pragma once
#include <memory>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "tenon_schema/onnx.pb.h"

namespace tenon::onnx {

namespace proto = tenon_onnx;

/// The bytes of a file in pages that can be given back one by one.
class FileBytes {
 public:
  explicit FileBytes(size_t size);       ///< zeros; T2003 when memory ends
  explicit FileBytes(std::string text);  ///< of a pipe
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  char* data() { return pages_ ? pages_ : text_.data(); }
  std::string_view view() const { return pages_ ? std::string_view(pages_, size_) : text_; }
  /// Bytes that nobody reads again.
  void release(std::string_view part);

 private:
  std::string text_;
  char* pages_ = nullptr;
  size_t size_ = 0;
};

/// A parsed model file.
struct ModelFile {
  proto::ModelProto model;
  std::vector<std::string_view> payloads;  ///< the long ones, by TensorProto::payload
  std::shared_ptr<FileBytes> bytes;        ///< what they lie in; null: in the caller's memory
  std::string name;                        ///< for messages
  std::string folder;                      ///< external data lies below it; empty: no external data
};

/// Text from the file for a message: control characters escaped, long text cut.
std::string in_quotes(std::string_view text, size_t limit = 80);
/// ONNX's own name of a type: "float16", "string"; "type 77" when unknown.
std::string onnx_type_name(int type);
/// The data type that programs compute with. Void: there is none (strings, complex numbers, types that are
/// only stored, unknown).
DataType element_type(int type);
/// The same with types that are only stored.
DataType stored_type(int type);

/// The tensor's value. Errors T2014 to T2018 and T2103, located at `where`. Payload bytes are released as
/// soon as they are copied, unless copies of `t` may be read too (`again`).
NDArray read_tensor(proto::TensorProto& t, const ModelFile& file, const ImportOptions& options,
                    const std::string& where, bool again = false);
/// Number of elements from the tensor's dimensions, checked: T2014, T2015.
int64_t checked_elements(const proto::TensorProto& t, DataType dtype, const ImportOptions& options,
                         const std::string& where);

/// Content of a file up to `limit` bytes: T3001 (cannot be read), T2003 (larger).
std::shared_ptr<FileBytes> read_file(const std::string& path, int64_t limit);
/// Checked and parsed bytes. T2001 to T2006.
ModelFile parse_model(std::string_view bytes, const std::string& name, const std::string& folder,
                      const ImportOptions& options);
/// read_file and parse_model.
ModelFile open_model(const std::string& path, const ImportOptions& options);

}  // namespace tenon::onnx
