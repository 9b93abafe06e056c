#pragma once
// Model description: the text "family:key=value,..." of a model shape, taken apart (internal to the library).
//
// Every value is read with its range and its default; what nobody asked for is refused with a suggestion, as a misspelt
// key would otherwise be a silent default. Errors name the column. Not modelled: quantities; all values are numbers or
// words. The name of a public model (named_models.hpp) in place of the family brings its pairs along; those that stand
// behind the name come before them.
//
// transformer.cpp and convolutional.cpp read the keys of their families; model_shape.cpp counts parameters.
#include <stepcast/roofline/model_shape.hpp>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

class ModelDescriptionText {
 public:
  /// Reads the family and the pairs of any keys; throws InputError.
  explicit ModelDescriptionText(std::string_view text);
  [[nodiscard]] const std::string& family() const { return family_; }
  /// Whether the text has this key, be it with its default.
  [[nodiscard]] bool gives(std::string_view key) const { return given_.contains(key); }
  [[noreturn]] void refuse_family(std::span<const std::string> known) const;

  [[nodiscard]] std::int64_t required_integer(std::string_view key, std::int64_t low, std::int64_t high);
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t standard, std::int64_t low, std::int64_t high);
  /// In [0, 1).
  [[nodiscard]] double share(std::string_view key, double standard);
  [[nodiscard]] std::string word(std::string_view key, std::string_view standard,
                                 std::initializer_list<std::string_view> known);
  /// `stays`: what is given is in the normalised text, be it the default.
  [[nodiscard]] DataType data_type(std::string_view key, DataType standard, bool of_products = false,
                                   bool stays = false);
  /// Requires that `key` was asked for; points at its value, or at the end where it has its default.
  [[noreturn]] void refuse(std::string_view key, std::string expected, std::string found, std::string hint = {}) const;

  /// Refuses keys that were not asked for.
  void require_all_known() const;
  /// "gpt:hidden=768,layers=12": what differs from the defaults, in the order of asking.
  [[nodiscard]] std::string normalised() const;

 private:
  struct Given {
    std::string value;
    std::size_t key_column, value_column;
  };
  void add_pairs(std::string_view text, std::size_t from);
  [[nodiscard]] const Given* asked(std::string_view key);
  void keep(std::string_view key, const std::string& value, bool standard);

  std::string family_;
  std::size_t size_ = 0;
  std::map<std::string, Given, std::less<>> given_;
  std::vector<std::string> asked_;
  std::string kept_;
};

/// What the families are made of; each reads its own keys.
[[nodiscard]] bool is_transformer(std::string_view family);
[[nodiscard]] ModelShape transformer_shape(ModelDescriptionText&);
[[nodiscard]] bool is_convolutional(std::string_view family);
[[nodiscard]] ModelShape convolutional_shape(ModelDescriptionText&);
[[nodiscard]] std::vector<std::string> model_families();

/// With its parameters counted.
[[nodiscard]] UnitShape counted(UnitShape unit);

}  // namespace stepcast
