"""8-bit weights: close to the weights they stand for, at a quarter of their size."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

from inferstream.plugins.frameworks.quantization import FEW, Int8Linear


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, FEW, FEW + 1, 3 * FEW])
def test_quantized_results_are_close(dtype: str, bias: bool, rows: int) -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 96, bias=bias, dtype=getattr(torch, dtype))
    smaller = Int8Linear(linear)
    assert smaller.weight.dtype == torch.int8
    values = torch.randn(rows, 3, 64, dtype=linear.weight.dtype)
    with torch.inference_mode():
        found, expected = smaller(values), linear(values)
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) < 0.03
