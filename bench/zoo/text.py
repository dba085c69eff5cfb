# SPDX-License-Identifier: Apache-2.0
"""Text networks of transformers: encoders, decoders with and without caches, mixtures of experts, state spaces, encoder-decoders."""
import torch
import transformers as hf

from .entry import entry, text_free, tokens

HIDDEN = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 99}
MASKED = ("input_ids", "attention_mask")


def last_hidden(module, input_ids, attention_mask):
    return module(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


ENCODERS = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**HIDDEN)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**HIDDEN)),
    "distilbert": lambda: hf.DistilBertModel(hf.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=99)),
    "albert": lambda: hf.AlbertModel(hf.AlbertConfig(**HIDDEN, embedding_size=16)),
    "electra": lambda: hf.ElectraModel(hf.ElectraConfig(**HIDDEN, embedding_size=16)),
    "mpnet": lambda: hf.MPNetModel(hf.MPNetConfig(**HIDDEN)),
    "deberta": lambda: hf.DebertaModel(hf.DebertaConfig(**HIDDEN, relative_attention=True, pos_att_type=["c2p", "p2c"])),
    "deberta_v2": lambda: hf.DebertaV2Model(hf.DebertaV2Config(**HIDDEN, relative_attention=True, position_buckets=8, pos_att_type=["c2p", "p2c"])),
    "mobilebert": lambda: hf.MobileBertModel(hf.MobileBertConfig(**{**HIDDEN, "hidden_size": 32}, embedding_size=16, intra_bottleneck_size=16)),
    "squeezebert": lambda: hf.SqueezeBertModel(hf.SqueezeBertConfig(**HIDDEN)),
    "modernbert": lambda: hf.ModernBertModel(hf.ModernBertConfig(**HIDDEN, pad_token_id=0, eos_token_id=1, bos_token_id=2, cls_token_id=1, sep_token_id=1)),
    "fnet": lambda: hf.FNetModel(hf.FNetConfig(hidden_size=32, num_hidden_layers=2, intermediate_size=48, vocab_size=99)),
    "nystromformer": lambda: hf.NystromformerModel(hf.NystromformerConfig(**HIDDEN, num_landmarks=4, segment_means_seq_len=12)),
    "funnel": lambda: hf.FunnelModel(hf.FunnelConfig(vocab_size=99, d_model=32, n_head=4, d_head=8, d_inner=48, block_sizes=[1, 1])),
    "xlnet": lambda: hf.XLNetModel(hf.XLNetConfig(vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=48)),
    "longformer": lambda: hf.LongformerModel(hf.LongformerConfig(**HIDDEN, attention_window=4)),
    "ibert": lambda: hf.IBertModel(hf.IBertConfig(**HIDDEN)),
    "convbert": lambda: hf.ConvBertModel(hf.ConvBertConfig(**HIDDEN, embedding_size=32)),
}
for _name, _make in ENCODERS.items():
    if _name == "fnet":
        entry(_name, "encoder", tokens(), text_free("input_ids"))(lambda m=_make: (m(), lambda module, ids: module(input_ids=ids).last_hidden_state))
    else:
        entry(_name, "encoder", tokens(names=MASKED), text_free(*MASKED))(lambda m=_make: (m(), last_hidden))

GQA = {**HIDDEN, "num_key_value_heads": 2}
DECODERS = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4)),
    "gpt_neo": lambda: hf.GPTNeoForCausalLM(hf.GPTNeoConfig(vocab_size=99, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4)),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**HIDDEN)),
    "gptj": lambda: hf.GPTJForCausalLM(hf.GPTJConfig(vocab_size=99, n_embd=32, n_layer=2, n_head=4, rotary_dim=4)),
    "opt": lambda: hf.OPTForCausalLM(hf.OPTConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, word_embed_proj_dim=32)),
    "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(vocab_size=99, hidden_size=32, n_layer=2, n_head=4)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GQA)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**GQA, sliding_window=4)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**GQA)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**GQA, head_dim=8)),
    "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**HIDDEN)),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**GQA, pad_token_id=0)),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**GQA, head_dim=8)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**GQA, head_dim=8, sliding_window=4)),
    "falcon": lambda: hf.FalconForCausalLM(hf.FalconConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)),
    "stablelm": lambda: hf.StableLmForCausalLM(hf.StableLmConfig(**GQA)),
    "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**GQA)),
    "cohere": lambda: hf.CohereForCausalLM(hf.CohereConfig(**GQA)),
    "starcoder2": lambda: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**GQA)),
}


def logits(module, input_ids, attention_mask):
    return module(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


for _name, _make in DECODERS.items():
    entry(_name, "decoder", tokens(names=MASKED), text_free(*MASKED))(lambda m=_make: (m(), logits))

EXPERTS = {
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**GQA, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": lambda: hf.Qwen2MoeForCausalLM(hf.Qwen2MoeConfig(**GQA, moe_intermediate_size=16, shared_expert_intermediate_size=24, num_experts=4, num_experts_per_tok=2)),
    "gpt_oss": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(**GQA, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4)),
}
for _name, _make in EXPERTS.items():
    entry(_name, "mixture of experts", tokens(names=MASKED), text_free(*MASKED))(lambda m=_make: (m(), logits))


def with_cache(layers, heads, width):
    """One new token behind a cache: ids, mask, then keys and values of each layer (batch, heads, past, width)."""
    def make(k):
        batch, past = (1, 5) if k == 0 else (2, 9)
        feed = {"input_ids": torch.randint(3, 99, (batch, 1)), "attention_mask": torch.ones((batch, past + 1), dtype=torch.int64)}
        for i in range(layers):
            feed[f"past_{i}_key"], feed[f"past_{i}_value"] = torch.randn((batch, heads, past, width)), torch.randn((batch, heads, past, width))
        return feed
    free = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch", 1: "total"}}
    free |= {f"past_{i}_{kv}": {0: "batch", 2: "past"} for i in range(layers) for kv in ("key", "value")}
    return make, free


def cached(module, input_ids, attention_mask, *past):
    cache = hf.DynamicCache(config=module.config)
    for i in range(len(past) // 2):
        cache.update(past[2 * i], past[2 * i + 1], i)
    out = module(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
    return [out.logits] + [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]


for _name, _heads in {"gpt2": 4, "llama": 2, "qwen2": 2, "gpt_neox": 4, "opt": 4}.items():
    _inputs, _free = with_cache(2, _heads, 8)
    entry(_name + "_cache", "decoder with cache", _inputs, _free)(lambda m=DECODERS[_name]: (m(), cached))

STATES = {
    "mamba": lambda: hf.MambaForCausalLM(hf.MambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8)),
    "mamba2": lambda: hf.Mamba2ForCausalLM(hf.Mamba2Config(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=1, chunk_size=4)),
    "rwkv": lambda: hf.RwkvForCausalLM(hf.RwkvConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32)),
    "falcon_mamba": lambda: hf.FalconMambaForCausalLM(hf.FalconMambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8)),
}
for _name, _make in STATES.items():
    entry(_name, "state space", tokens(8, 8), {"input_ids": {0: "batch"}})(lambda m=_make: (m(), lambda module, ids: module(input_ids=ids, use_cache=False).logits))

SEQ2SEQ = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
           "vocab_size": 99}
PAIRS = {
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**SEQ2SEQ)),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**SEQ2SEQ, pad_token_id=0, decoder_start_token_id=0)),
    "pegasus": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**SEQ2SEQ)),
    "m2m_100": lambda: hf.M2M100ForConditionalGeneration(hf.M2M100Config(**SEQ2SEQ)),
}
for _name, _make in PAIRS.items():
    def _inputs(k):
        batch, length = (1, 12) if k == 0 else (2, 15)
        return {"input_ids": torch.randint(3, 99, (batch, length)), "decoder_input_ids": torch.randint(3, 99, (batch, length - 5))}
    entry(_name, "encoder-decoder", _inputs, {"input_ids": {0: "batch", 1: "source"}, "decoder_input_ids": {0: "batch", 1: "target"}})(
        lambda m=_make: (m(), lambda module, a, b: module(input_ids=a, decoder_input_ids=b, use_cache=False).logits))
