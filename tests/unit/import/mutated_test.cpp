// SPDX-License-Identifier: Apache-2.0
// The model of every converter (samples.json) with something wrong in it: attributes of other kinds and of
// absurd values, inputs of other ranks and types, constants that do not fit, inputs and outputs left out or
// too many. Each imports or is refused by a coded error that names the file, quickly and in little memory.
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <functional>

#include "import/onnx/load.h"
#include "limits.h"
#include "samples.h"

namespace tenon {
namespace {

using namespace test;

/// Imports a changed sample; what must not happen fails the test.
void import_changed(const json& sample, const std::string& change) {
  SCOPED_TRACE(sample.at("name").get<std::string>() + ": " + change);
  const std::clock_t start = std::clock();
  try {
    onnx::import_onnx_bytes(model_of(sample), "m.onnx");
  } catch (const Error& e) {
    EXPECT_NE(e.kind, ErrorKind::internal) << e.what();
    EXPECT_NE(std::string(e.what()).find("m.onnx"), std::string::npos) << "names no file: " << e.what();
  }
  EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, kSecondsAllowed);
}

using Try = std::function<void(const json& changed, const std::string& change)>;

/// What `change` makes of each sample; there have to be `least` models.
void import_all(int least, const std::function<void(const json& sample, const Try&)>& change) {
  const long before = peak_kilobytes();
  int count = 0;
  for (const json& sample : samples())
    change(sample, [&](const json& changed, const std::string& what) {
      ++count;
      import_changed(changed, what);
    });
  EXPECT_GE(count, least);
  if (kMemoryCounts) {
    EXPECT_LT(peak_kilobytes() - before, kKilobytesAllowed);
  }
  testing::Test::RecordProperty("models", count);
}

const int64_t kNumbers[] = {0, -1, 7, int64_t(1) << 31, int64_t(1) << 40, INT64_MAX, INT64_MIN};

TEST(Mutated, Attributes) {
  std::vector<json> values{
      1.5, "x", json::array({"a"}), json::array({0.5}), json::array(), {1, 2, 3, 4, 5, 6, 7}};
  for (const double f : {0.0, -1.0, double(NAN), double(INFINITY)}) values.push_back(f);
  for (const int64_t v : kNumbers) values.insert(values.end(), {v, {v}, {v, v, v, v}});
  values.push_back({{"tensor", {"float32", {2, 2}, {0, 0, 0, 0}}}});
  values.push_back(
      {{"graph", {{"nodes", json::array()}, {"inputs", json::object()}, {"outputs", json::object()}}}});
  import_all(10000, [&](const json& sample, const Try& attempt) {
    for (size_t k = 0; k < sample.at("nodes").size(); ++k) {
      json changed = sample;
      json& n = changed.at("nodes")[k];
      const json given = object_of(n, "attributes");
      for (const auto& [name, v] : given.items()) {
        for (const json& other : values) {
          n["attributes"][name] = other;
          attempt(changed, name + " = " + other.dump());
        }
        n["attributes"] = given;
        n["attributes"].erase(name);
        attempt(changed, "no " + name);
        n["attributes"] = given;
      }
    }
  });
}

TEST(Mutated, Inputs) {
  const std::vector<json> shapes{json::array(),
                                 {0},
                                 {1},
                                 {3},
                                 {2, 0},
                                 {5, 7},
                                 {1, 1, 1, 1, 1, 1, 1},
                                 {"n"},
                                 {"a", "b", "c"},
                                 {int64_t(1) << 40, int64_t(1) << 40}};
  const char* types[] = {"float32", "uint8",   "int8",    "int64",    "string",
                         "bool",    "float16", "float64", "sequence", "optional"};
  import_all(10000, [&](const json& sample, const Try& attempt) {
    for (const auto& [name, j] : sample.at("inputs").items()) {
      json changed = sample;
      json& input = changed.at("inputs").at(name);
      for (const json& shape : shapes) {
        input = {j.at(0), shape};
        attempt(changed, name + " of shape " + shape.dump());
      }
      for (const char* type : types) {
        input = {type, j.at(1)};
        attempt(changed, name + " of " + type);
      }
    }
  });
}

TEST(Mutated, Constants) {
  const double numbers[] = {0, -1, INFINITY, NAN, 0x1p31, -0x1p62, 0x1p62, 0x1p40};
  const std::vector<std::vector<int64_t>> shapes{{}, {0}, {3}, {2, 0}, {1, 1, 1, 1, 1, 1}};
  const auto filled = [](const json& type, const std::vector<int64_t>& shape, const json& value) {
    json data = json::array();
    int64_t count = 1;
    for (const int64_t d : shape) count *= d;
    for (int64_t i = 0; i < count; ++i) data.push_back(value);
    return json{type, shape, data};
  };
  import_all(5000, [&](const json& sample, const Try& attempt) {
    for (const auto& [name, j] : object_of(sample, "constants").items()) {
      const std::string type = j.at(0);
      if (type == "string") continue;
      const bool real = type.find("float") != std::string::npos;
      json changed = sample;
      json& constant = changed.at("constants").at(name);
      for (const double v : numbers) {
        if (!real && !std::isfinite(v)) continue;
        constant = filled(type, j.at(1), real ? json(std::to_string(v)) : json(int64_t(v)));
        attempt(changed, name + " = " + std::to_string(v));
      }
      for (const auto& shape : shapes) {
        constant = filled(type, shape, 1);
        attempt(changed, name + " of another shape: " + constant.dump());
      }
      constant = filled(type == "float64" ? "int16" : "float64", j.at(1), 1);
      attempt(changed, name + " of another type");
    }
  });
}

TEST(Mutated, Nodes) {
  import_all(1000, [](const json& sample, const Try& attempt) {
    for (size_t k = 0; k < sample.at("nodes").size(); ++k) {
      const json& n = sample.at("nodes")[k];
      for (size_t i = 0; i < n.at("inputs").size(); ++i) {
        json changed = sample;
        changed["nodes"][k]["inputs"][i] = "";
        attempt(changed, "without input " + std::to_string(i));
        changed["nodes"][k]["inputs"][i] = n.at("inputs")[0];
        attempt(changed, "the first input as input " + std::to_string(i));
      }
      json more = sample;
      more["nodes"][k]["outputs"].push_back("one_more");
      attempt(more, "one more output");
      more = sample;
      for (int i = 0; i < 3; ++i)
        more["nodes"][k]["inputs"].push_back(sample.at("inputs").empty() ? ""
                                                                         : sample.at("inputs").begin().key());
      attempt(more, "more inputs");
    }
  });
}

}  // namespace
}  // namespace tenon
