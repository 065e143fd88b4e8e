// SPDX-License-Identifier: Apache-2.0
// Tables of `AutoTokenizer` in Hugging Face Transformers 5.22.2.
#include "tokenizers/models/model_types.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace transformers::tokenizers {
namespace {

struct ModelTypes {
  const char* class_name;
  const char* model_types;  // Separated by spaces.
};

// The class of each model type.
constexpr ModelTypes kModelTypes[] = {
    {"AlbertTokenizer", "albert yoso"},
    {"BartTokenizer", "florence2"},
    {"BarthezTokenizer", "barthez"},
    {"BartphoTokenizer", "bartpho"},
    {"BertGenerationTokenizer", "bert-generation"},
    {"BertJapaneseTokenizer", "bert-japanese"},
    {"BertTokenizer",
     "align bark bert blip bros chinese_clip convbert distilbert electra "
     "ernie flava git grounding-dino layoutlm megatron-bert mm-grounding-dino "
     "nezha nomic_bert qdqbert realm retribert squeezebert tvp vilt "
     "visual_bert"},
    {"BertweetTokenizer", "bertweet"},
    {"BigBirdTokenizer", "big_bird"},
    {"BioGptTokenizer", "biogpt"},
    {"BlenderbotSmallTokenizer", "blenderbot-small"},
    {"BlenderbotTokenizer", "blenderbot"},
    {"ByT5Tokenizer", "byt5"},
    {"CLIPTokenizer",
     "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 "
     "sam3_video xclip"},
    {"CTRLTokenizer", "ctrl"},
    {"CamembertTokenizer", "camembert"},
    {"CanineTokenizer", "canine"},
    {"ClvpTokenizer", "clvp"},
    {"CodeLlamaTokenizer", "code_llama"},
    {"CohereTokenizer", "aya_vision cohere cohere2"},
    {"CpmAntTokenizer", "cpmant"},
    {"CpmTokenizer", "cpm"},
    {"DPRQuestionEncoderTokenizer", "dpr"},
    {"DebertaTokenizer", "deberta"},
    {"DebertaV2Tokenizer", "deberta-v2"},
    {"DiaTokenizer", "dia"},
    {"EsmTokenizer", "esm"},
    {"EsmcTokenizer", "esmc esmfold2"},
    {"FNetTokenizer", "fnet"},
    {"FSMTTokenizer", "fsmt"},
    {"FastSpeech2ConformerTokenizer", "fastspeech2_conformer"},
    {"FlaubertTokenizer", "flaubert"},
    {"FunnelTokenizer", "funnel"},
    {"GPT2Tokenizer",
     "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 "
     "instructblip instructblipvideo jais2 opt phi starcoder2"},
    {"GPTNeoXJapaneseTokenizer", "gpt_neox_japanese"},
    {"GPTNeoXTokenizer",
     "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
    {"GPTSw3Tokenizer", "gpt-sw3"},
    {"GemmaTokenizer",
     "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text "
     "recurrent_gemma shieldgemma2 t5gemma zaya"},
    {"HerbertTokenizer", "herbert"},
    {"LEDTokenizer", "led"},
    {"LasrTokenizer", "lasr_ctc lasr_encoder"},
    {"LayoutLMv2Tokenizer", "layoutlmv2"},
    {"LayoutLMv3Tokenizer", "layoutlmv3"},
    {"LayoutXLMTokenizer", "layoutxlm"},
    {"LlamaTokenizer", "idefics idefics2"},
    {"LukeTokenizer", "luke"},
    {"LxmertTokenizer", "lxmert"},
    {"M2M100Tokenizer", "m2m_100"},
    {"MBart50Tokenizer", "mbart50"},
    {"MBartTokenizer", "mbart"},
    {"MLukeTokenizer", "mluke"},
    {"MPNetTokenizer", "mpnet"},
    {"MarianTokenizer", "marian"},
    {"MarkupLMTokenizer", "markuplm"},
    {"MgpstrTokenizer", "mgp-str"},
    {"MobileBertTokenizer", "mobilebert"},
    {"MvpTokenizer", "mvp"},
    {"MyT5Tokenizer", "myt5"},
    {"NllbTokenizer", "nllb nllb-moe"},
    {"NougatTokenizer", "nougat pp_formulanet"},
    {"OpenAIGPTTokenizer", "openai-gpt"},
    {"PLBartTokenizer", "plbart"},
    {"ParakeetTokenizer",
     "granite_speech5_ctc nemotron3_5_asr nemotron_asr_streaming parakeet_ctc "
     "parakeet_rnnt parakeet_tdt"},
    {"PegasusTokenizer", "pegasus"},
    {"PerceiverTokenizer", "perceiver"},
    {"PhobertTokenizer", "phobert"},
    {"ProphetNetTokenizer", "prophetnet"},
    {"Qwen2Tokenizer",
     "audioflamingo3 colqwen2 cosmos3_omni fun_asr_nano hunyuan_vl internvl "
     "lighton_ocr moss_transcribe_diarize ovis2 qianfan_ocr qwen2 "
     "qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr "
     "qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice"},
    {"Qwen3_5Tokenizer",
     "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp"},
    {"RagTokenizer", "rag"},
    {"ReformerTokenizer", "reformer"},
    {"RemBertTokenizer", "rembert"},
    {"RoCBertTokenizer", "roc_bert"},
    {"RoFormerTokenizer", "roformer"},
    {"RobertaTokenizer",
     "bart bridgetower clap data2vec-text ibert lilt longformer mega mra "
     "roberta roberta-prelayernorm"},
    {"SeamlessM4TTokenizer", "seamless_m4t seamless_m4t_v2"},
    {"Siglip2Tokenizer", "siglip2"},
    {"SiglipTokenizer", "siglip"},
    {"Speech2TextTokenizer", "speech_to_text"},
    {"SpeechT5Tokenizer", "speecht5"},
    {"SplinterTokenizer", "splinter"},
    {"T5Tokenizer", "mt5 musicgen musicgen_melody switch_transformers t5"},
    {"TapasTokenizer", "tapas"},
    {"Tipsv2Tokenizer", "tipsv2"},
    {"TokenizersBackend",
     "EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary "
     "chatlm cohere_asr ernie4_5 ernie4_5_moe flex_olmo fuyu glm glm4 "
     "glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2 "
     "gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid "
     "granitemoeshared h2ovl_chat hyperclovax hyperclovax_vlm internlm2 jamba "
     "kimi_k25 kimi_linear kosmos-2 llava llava_next mimo_v2_flash minicpm3 "
     "minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral "
     "ministral3 mistral mistral3 mistral_large4 mixtral modernbert "
     "modernbert-decoder molmo molmo2 nemo_speechlm nemotron nvfp4 "
     "nystromformer olmo2 olmo3 olmo_hybrid opencua openvla paddleocr_vl "
     "pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts "
     "smolvlm stablelm step3_vl umt5 vipllava voxtral voxtral_realtime "
     "xlm-roberta-xl"},
    {"UdopTokenizer", "udop"},
    {"VideoPrismTokenizer", "videoprism"},
    {"VitsTokenizer", "vits"},
    {"Wav2Vec2CTCTokenizer",
     "data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert "
     "wav2vec2-conformer"},
    {"Wav2Vec2PhonemeCTCTokenizer", "wav2vec2_phoneme"},
    {"WhisperTokenizer", "whisper"},
    {"XGLMTokenizer", "xglm"},
    {"XLMRobertaTokenizer",
     "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"},
    {"XLMTokenizer", "xlm"},
    {"XLNetTokenizer", "xlnet"},
};

// Model types whose `tokenizer_class` is often wrong in published models.
constexpr std::string_view kWrongClass =
    "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu "
    "h2ovl_chat hyperclovax hyperclovax_vision_v2 hyperclovax_vlm internlm2 "
    "jamba llava llava_next minicpm3 minicpmv minimax_m2 modernbert "
    "modernbert-decoder molmo molmo2 nemotron nvfp4 opencua openvla "
    "paddleocr_vl phi3 phi3_v phimoe qwen2 qwen3_5 qwen3_5_moe "
    "qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava";

// Model types that are ignored if no file contains a class name.
constexpr std::string_view kOnlyWithClass =
    "barthez bartpho bert-japanese bertweet byt5 code_llama cpm herbert "
    "mbart50 mega mluke myt5 nezha nllb phobert qdqbert realm retribert "
    "wav2vec2_phoneme";

// Names of models whose tokenizer.json is used as it is. `*` matches any text.
constexpr std::string_view kBackendModels[] = {
    "deepseek-ai/deepseek-r1-distill-llama-*",
    "deepseek-ai/deepseek-coder-*",
    "allenai/dolma2-tokenizer",
    "google/umt5-small",
    "naver-clova-ix/donut-*",
    "salesforce/blip2-opt-*",
    "salesforce/blip2-flan-t5-*",
    "salesforce/instructblip-flan-t5-*",
    "stepfun-ai/step-3.7-*",
};

// Other classes of Hugging Face Transformers that this library does not
// support.
constexpr std::string_view kOtherClasses =
    "DPRContextEncoderTokenizer DPRReaderTokenizer MistralCommonBackend "
    "Pop2PianoTokenizer SentencePieceBackend";

bool has_word(std::string_view words, std::string_view word) {
  const auto list = accelerate::split(words, ' ');
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

std::string class_of_model_type(std::string_view model_type) {
  for (const ModelTypes& entry : kModelTypes) {
    if (has_word(entry.model_types, model_type)) {
      return entry.class_name;
    }
  }
  return "";
}

bool is_listed_class(std::string_view name) {
  return has_word(kOtherClasses, name) ||
         std::any_of(
             std::begin(kModelTypes),
             std::end(kModelTypes),
             [&](const ModelTypes& entry) { return entry.class_name == name; });
}

bool often_has_wrong_class(std::string_view model_type) {
  return has_word(kWrongClass, model_type);
}

bool counts_only_with_class(std::string_view model_type) {
  return has_word(kOnlyWithClass, model_type);
}

bool is_backend_model(const std::string& name_or_path) {
  std::string name = name_or_path;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32)
                                : static_cast<char>(c);
  });
  return std::any_of(
      std::begin(kBackendModels),
      std::end(kBackendModels),
      [&](std::string_view pattern) {
        return pattern.ends_with('*')
                   ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                   : name == pattern;
      });
}

}  // namespace transformers::tokenizers
