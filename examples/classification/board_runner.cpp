// Board side of the classification example: runs a module with c7x::Module and prints the five best labels.
//
//   board_runner lib0.out input.bin labels.txt
//
// input.bin is a tensor file (TVMT) with the module's input, labels.txt has one label a line. On a virtual DSP a cycle is
// a nanosecond of host time. Exit code 0, or 1 with the reason on standard error.
#include <c7x_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "c7x_tensorfile.h"

namespace {

std::vector<char> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return std::vector<char>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The only tensor of a file, copied to where the DSP reads it: nothing is copied again when the module runs.
DLTensor* StageInput(c7x::Module& module, const std::string& path) {
  const std::vector<char> bytes = ReadFile(path);
  c7x_tensorfile_tensor tensor;
  uint32_t count = 0;
  int status = c7x_tensorfile_read(bytes.data(), bytes.size(), &tensor, 1, &count, nullptr);
  if (status != C7X_TENSORFILE_OK) throw std::runtime_error(path + ": " + c7x_tensorfile_status_text(status));
  if (count != 1) throw std::runtime_error(path + " holds no tensor");
  DLDataType dtype;
  dtype.code = tensor.code;
  dtype.bits = tensor.bits;
  dtype.lanes = 1;
  DLTensor* input = module.CreateInput(tensor.shape, tensor.ndim, dtype);
  if (input == nullptr) throw std::runtime_error(module.LastError());
  std::memcpy(input->data, tensor.data, tensor.nbytes);
  return input;
}

void PrintBest(const c7x::OutputTensor& logits, const std::vector<std::string>& labels) {
  if (logits.dl.dtype.code != kDLFloat || logits.dl.dtype.bits != 32) throw std::runtime_error("the output is not float32");
  const float* values = static_cast<const float*>(logits.dl.data);
  if (logits.data_size != labels.size() * sizeof(float))
    throw std::runtime_error("there are " + std::to_string(labels.size()) + " labels for " +
                             std::to_string(logits.data_size / sizeof(float)) + " logits");
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [values](size_t a, size_t b) { return values[a] > values[b]; });
  std::printf("Top-5 predictions:\n");
  for (size_t i = 0; i < std::min<size_t>(5, order.size()); ++i)
    std::printf("  %-30s logit=%.4f\n", labels[order[i]].c_str(), static_cast<double>(values[order[i]]));
}

int Run(const std::string& module_path, const std::string& input_path, const std::string& labels_path) {
  const std::vector<std::string> labels = ReadLines(labels_path);
  c7x::Module module = c7x::Module::Load(module_path);
  module.SetPrintf([](const char* text, size_t size, void*) { std::fwrite(text, 1, size, stdout); }, nullptr);
  const DLTensor* input = StageInput(module, input_path);
  const auto start = std::chrono::steady_clock::now();
  const c7x::OutputTensor logits = module.Run(input);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  std::printf("%llu DSP cycles, %.2f ms\n", static_cast<unsigned long long>(module.LastCycles()), elapsed.count());
  PrintBest(logits, labels);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s MODULE INPUT LABELS\n", argv[0]);
    return 1;
  }
  try {
    return Run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
