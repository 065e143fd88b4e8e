// SPDX-License-Identifier: Apache-2.0
// A byte trie that finds the tokens with which a text begins. All edges are in
// one hash table.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizers/text/hashing.h"

namespace transformers::tokenizers {

class Trie {
 public:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  Trie() : values_(1, kNone) { resize(64); }

  void add(std::string_view key, std::uint32_t value) {
    std::uint32_t node = kRoot;
    for (const char byte : key) {
      node = child_or_new(node, static_cast<unsigned char>(byte));
    }
    values_[node] = value;
  }
  /// Returns the child of a node for a byte, or `kNone` if there is none.
  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    const std::uint64_t key = key_of(node, byte);
    for (std::size_t at = place(key);; at = (at + 1) & mask_) {
      if (edges_[at].key == key) {
        return edges_[at].child;
      }
      if (edges_[at].key == 0) {
        return kNone;
      }
    }
  }
  /// Follows the bytes of a text from `node`. Returns the node for the end of
  /// the text, or `kNone` if an edge is missing.
  std::uint32_t walk(std::uint32_t node, std::string_view text) const {
    for (const char byte : text) {
      if (node == kNone) {
        break;
      }
      node = child(node, static_cast<unsigned char>(byte));
    }
    return node;
  }
  /// Returns the value of the key that ends at a node, or `kNone` if no key
  /// ends there.
  std::uint32_t value(std::uint32_t node) const { return values_[node]; }

 private:
  struct Edge {
    std::uint64_t key = 0;  // 0 if the slot is free.
    std::uint32_t child = 0;
  };
  static std::uint64_t key_of(std::uint32_t node, unsigned char byte) {
    return (static_cast<std::uint64_t>(node + 1) << 8) | byte;
  }
  std::size_t place(std::uint64_t key) const {
    return static_cast<std::size_t>(
               mix(key ^ kHashSeed, 0x9E3779B97F4A7C15ull)) &
           mask_;
  }
  std::uint32_t child_or_new(std::uint32_t node, unsigned char byte) {
    const std::uint32_t found = child(node, byte);
    if (found != kNone) {
      return found;
    }
    if (values_.size() * 3 > edges_.size() * 2) {
      resize(edges_.size() * 2);
    }
    const auto added = static_cast<std::uint32_t>(values_.size());
    values_.push_back(kNone);
    insert({key_of(node, byte), added});
    return added;
  }
  void insert(const Edge& edge) {
    std::size_t at = place(edge.key);
    while (edges_[at].key != 0) {
      at = (at + 1) & mask_;
    }
    edges_[at] = edge;
  }
  void resize(std::size_t size) {
    std::vector<Edge> old(size);
    old.swap(edges_);
    mask_ = size - 1;
    for (const Edge& edge : old) {
      if (edge.key != 0) {
        insert(edge);
      }
    }
  }

  std::vector<std::uint32_t> values_;
  std::vector<Edge> edges_;
  std::size_t mask_ = 0;
};

}  // namespace transformers::tokenizers
