// SPDX-License-Identifier: Apache-2.0
// Errors of importing ONNX models.
#include "base/error_codes/tables.h"

namespace tenon::error_codes {

std::span<const ErrorCode> onnx_codes() {
  static constexpr ErrorCode codes[] = {
      {"T2001", "this is no ONNX model", "The file is empty, holds no graph, or is of another format.",
       "Export the model with torch.onnx.export or another ONNX exporter."},
      {"T2002", "the model file is truncated or corrupted",
       "Its bytes do not decode; the message says where.", "Copy or download the file again."},
      {"T2003", "the model file is larger than the limit", "A single ONNX file holds at most 2 GiB.",
       "Store the weights as external data beside the model."},
      {"T2004", "the model would take far more memory than its size",
       "It is made of too many tiny parts, or its functions expand to too many nodes.",
       "Simplify the model before exporting it."},
      {"T2005", "graphs or types of the model are nested too deeply",
       "The nesting exceeds the limit that guards the importer's stack.",
       "Simplify the model before exporting it."},
      {"T2006", "the version of the ONNX format is not known",
       "The model states none, or one that is newer than this importer.",
       "Export it for IR version 13 or earlier."},
      {"T2007", "the model does not say which operator set it uses", "A domain has no entry in opset_import.",
       "Export it again with a current exporter."},
      {"T2008", "the operator set is not supported",
       "Its version is older or newer than the importer covers.",
       "Convert the model with ONNX's version converter; `tenon ops --onnx` shows what is covered."},
      {"T2010", "a name of the model is defined twice",
       "Two nodes, inputs, initialisers or functions have one name.",
       "Export the model again; ONNX's checker finds the same fault."},
      {"T2011", "an input of a node is not defined", "No node, input or initialiser has the name.",
       "Export the model again; ONNX's checker finds the same fault."},
      {"T2012", "the graph has a cycle", "Nodes wait for one another's outputs.",
       "Export the model again; ONNX's checker finds the same fault."},
      {"T2013", "an output of the graph is missing", "The graph has none, or one that nothing defines.",
       "Export the model again; ONNX's checker finds the same fault."},
      {"T2014", "a tensor of the model is malformed",
       "Its dimensions, element type and data do not fit together, or it has no name.",
       "Export the model again; ONNX's checker finds the same fault."},
      {"T2015", "a tensor of the model is larger than the limit",
       "The number of its elements or bytes exceeds what is accepted.",
       "Use smaller sizes, or raise the limit of the importer."},
      {"T2016", "the place of external data is not allowed",
       "A model may read only files in its own folder, so that a foreign one cannot read yours.",
       "Put the data into the model's folder or below."},
      {"T2017", "external data is missing or cannot be read",
       "The file beside the model is not there, or permissions forbid it.",
       "Put the data files beside the model, under the names that it uses."},
      {"T2018", "external data lies outside its file",
       "Offset or length are malformed, or lead beyond the end of the file.",
       "Copy the data files again, or export the model again."},
      {"T2020", "a node is not what its operator's specification allows",
       "Inputs, outputs, attributes or shapes break a rule of ONNX.",
       "Export the model again; the message says what is wrong."},
      {"T2021", "functions of the model call themselves or too deeply",
       "ONNX functions are expanded where they are called, so they may not recurse.",
       "Remove the recursion; ONNX has Loop for repetition."},
      {"T2022", "an input of the model has no name or type", "Every input states its name and element type.",
       "Export the model again."},
      {"T2023", "a value of the model is not what it is declared to be",
       "Its node makes elements of another type, or another kind of value.",
       "Correct the declaration, or export the model again."},
      {"T2030", "the model cannot be quantised",
       "It has no constant float weights, one of them is not finite, or operators of an old operator set "
       "mean "
       "something else in set 13.",
       "Export it again with operator set 13 or later."},
      {"T2031", "a node to leave in float is not there", "The name is unknown in the model's graph.",
       "Use one of the names that the message lists."},
      {"T2101", "an operator is not supported", "The importer has no converter for it.",
       "`tenon ops --onnx` lists what is covered; docs/status.md says what is planned."},
      {"T2102", "an operator is not supported in this form",
       "An input must be constant, or a rank or shape known, for the program that is generated.",
       "Give static shapes (`--dim`), or fold the input to a constant when exporting."},
      {"T2103", "a type of the model is not supported",
       "Sparse inputs and complex numbers are not taken, and most operators take tensors of numbers "
       "only.",
       "Change the model so that its values are tensors, sequences or optionals of supported types."},
      {"T2104", "a tensor has more dimensions than there are variants for",
       "Its rank depends on values that only the run knows; the program holds a variant for each rank up to "
       "6, and the "
       "run refuses others.",
       "Give the values that decide it when compiling (`--bind NAME=@FILE`)."},
  };
  return codes;
}

}  // namespace tenon::error_codes
