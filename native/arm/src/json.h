// The JSON that c7x_compute reads (one flat object a line) and writes.
#ifndef C7X_ARM_JSON_H
#define C7X_ARM_JSON_H

#include <cstdint>
#include <map>
#include <string>

// A string with quotes, escaped; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(const std::string& text);

// A flat object: strings, numbers, true, false and null; nested values are refused.
class JsonObject {
 public:
  // False, with `error` set, when `text` is not such an object.
  bool Parse(const std::string& text, std::string* error);
  bool Has(const std::string& key) const { return values_.count(key) != 0; }
  // False when there is no such key, or it is not a string, or not a whole number of at least 0 (true and false are 1
  // and 0).
  bool GetString(const std::string& key, std::string* value) const;
  bool GetNumber(const std::string& key, int64_t* value) const;

 private:
  struct Value {
    bool is_string;
    std::string text;
  };
  std::map<std::string, Value> values_;
};

#endif  // C7X_ARM_JSON_H
