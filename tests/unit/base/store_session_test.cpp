// SPDX-License-Identifier: Apache-2.0
#include "base/store_session.h"

#include <set>

#include <gtest/gtest.h>

namespace accelerate::store {
namespace {

Handshake some_handshake() {
  return {"run", std::string(32, 's'), std::string(32, 'c'), {}};
}

class FrameTest : public testing::Test {
 protected:
  static Digest key() {
    return derive_keys("secret", some_handshake()).requests;
  }

  // Splits a frame as it arrives.
  std::optional<std::string> open(const std::string& frame) {
    return opener_.open(
        frame.substr(0, kHeaderBytes), frame.substr(kHeaderBytes));
  }

  FrameSealer sealer_{key()};
  FrameOpener opener_{key()};
};

TEST(Hkdf, AgreesWithRfc5869) {
  std::string salt;
  for (char byte = 0; byte <= 0x0c; ++byte) {
    salt += byte;
  }
  std::string info;
  for (int byte = 0xf0; byte <= 0xf9; ++byte) {
    info += static_cast<char>(byte);
  }

  EXPECT_EQ(
      to_hex(as_text(hkdf_sha256(std::string(22, '\x0b'), salt, info))),
      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

TEST(SessionKeys, AreDifferentForEveryPurposeAndHandshake) {
  std::set<Digest> seen;
  const auto add = [&](const std::string& secret, const Handshake& handshake) {
    const SessionKeys keys = derive_keys(secret, handshake);
    seen.insert({keys.client_proof, keys.requests, keys.replies});
  };
  Handshake handshake = some_handshake();
  add("secret", handshake);
  add("another secret", handshake);
  handshake.run_id = "another run";
  add("secret", handshake);
  handshake.server_nonce[31] = 'x';
  add("secret", handshake);
  handshake.client_nonce[0] = 'x';
  add("secret", handshake);
  handshake.hello.rank = 1;
  add("secret", handshake);
  handshake.hello.generation = 1;
  add("secret", handshake);
  handshake.hello.role = Role::machine;
  add("secret", handshake);

  EXPECT_EQ(seen.size(), 3 * 8);
}

TEST_F(FrameTest, OpensFramesInOrder) {
  const std::string large(100000, 'x');
  for (const std::string& payload : {std::string("a"), std::string(), large}) {
    EXPECT_EQ(open(sealer_.seal(7, payload)), payload);
  }
}

TEST_F(FrameTest, HidesThePayload) {
  EXPECT_EQ(sealer_.seal(1, "payload").find("payload"), std::string::npos);
}

TEST_F(FrameTest, TheSamePayloadLooksDifferentEachTime) {
  EXPECT_NE(sealer_.seal(1, "payload"), sealer_.seal(1, "payload"));
}

TEST_F(FrameTest, DoesNotOpenAFrameWithAnyOtherByte) {
  const std::string frame = sealer_.seal(1, "payload");
  for (std::size_t i = 0; i < frame.size(); ++i) {
    std::string changed = frame;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    FrameOpener opener(key());

    EXPECT_FALSE(opener.open(
        changed.substr(0, kHeaderBytes), changed.substr(kHeaderBytes)))
        << "byte " << i;
  }
}

TEST_F(FrameTest, DoesNotOpenAFrameTwice) {
  const std::string frame = sealer_.seal(1, "payload");
  ASSERT_TRUE(open(frame));

  EXPECT_FALSE(open(frame));
}

TEST_F(FrameTest, NoticesAMissingFrame) {
  (void)sealer_.seal(1, "left out");

  EXPECT_FALSE(open(sealer_.seal(1, "payload")));
}

TEST_F(FrameTest, NoticesFramesInAnotherOrder) {
  const std::string first = sealer_.seal(1, "first");
  const std::string second = sealer_.seal(1, "second");

  EXPECT_FALSE(open(second));
  EXPECT_FALSE(open(first)) << "the stream is broken from here on";
}

TEST_F(FrameTest, DoesNotOpenATruncatedFrame) {
  const std::string frame = sealer_.seal(1, "payload");
  for (std::size_t size = kHeaderBytes; size < frame.size(); ++size) {
    FrameOpener opener(key());

    EXPECT_FALSE(opener.open(
        frame.substr(0, kHeaderBytes),
        frame.substr(kHeaderBytes, size - kHeaderBytes)));
  }
}

TEST(FrameHeader, LimitsTheLength) {
  const auto header = [](std::uint32_t length) {
    return Writer().number(length).number(std::uint8_t{1}).take();
  };

  EXPECT_FALSE(read_header(header(0)));
  EXPECT_FALSE(read_header(header(kTagBytes)));
  EXPECT_EQ(read_header(header(kTagBytes + 1))->body_bytes, kTagBytes);
  EXPECT_TRUE(read_header(header(kMaxFrame + kTagBytes)));
  EXPECT_FALSE(read_header(header(kMaxFrame + kTagBytes + 1)));
  EXPECT_FALSE(read_header("\x20"));
}

}  // namespace
}  // namespace accelerate::store
