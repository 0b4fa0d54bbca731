"""Folders of models for Triton's Python backend, with code as people write it for Triton."""

from pathlib import Path

ADD_SUB = '''
import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Adds two tensors, and subtracts the second from the first."""

    def initialize(self, args):
        self.model_config = model_config = json.loads(args["model_config"])
        output0_config = pb_utils.get_output_config_by_name(model_config, "OUTPUT0")
        output1_config = pb_utils.get_output_config_by_name(model_config, "OUTPUT1")
        self.output0_dtype = pb_utils.triton_string_to_numpy(output0_config["data_type"])
        self.output1_dtype = pb_utils.triton_string_to_numpy(output1_config["data_type"])

    def execute(self, requests):
        responses = []
        for request in requests:
            in_0 = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            in_1 = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            out_0, out_1 = in_0 + in_1, in_0 - in_1
            out_tensor_0 = pb_utils.Tensor("OUTPUT0", out_0.astype(self.output0_dtype))
            out_tensor_1 = pb_utils.Tensor("OUTPUT1", out_1.astype(self.output1_dtype))
            responses.append(pb_utils.InferenceResponse(output_tensors=[out_tensor_0, out_tensor_1]))
        return responses

    def finalize(self):
        print("Cleaning up...", flush=True)
'''

ADD_SUB_CONFIG = """
name: "add_sub"
backend: "python"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
input [ { name: "INPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [{ kind: KIND_CPU }]
"""

REPEAT = '''
import json
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Sends each element of IN as a response, after the time in DELAY, from a thread that outlives execute."""

    def initialize(self, args):
        self.model_config = model_config = json.loads(args["model_config"])
        if not pb_utils.using_decoupled_model_transaction_policy(model_config):
            raise pb_utils.TritonModelException("this model needs the decoupled policy")
        self.inflight_thread_count = 0
        self.inflight_thread_count_lck = threading.Lock()

    def execute(self, requests):
        for request in requests:
            self.process_request(request)
        return None

    def process_request(self, request):
        thread = threading.Thread(
            target=self.response_thread,
            args=(
                request.get_response_sender(),
                pb_utils.get_input_tensor_by_name(request, "IN").as_numpy(),
                pb_utils.get_input_tensor_by_name(request, "DELAY").as_numpy(),
            ),
        )
        thread.daemon = True
        with self.inflight_thread_count_lck:
            self.inflight_thread_count += 1
        thread.start()

    def response_thread(self, response_sender, in_input, delay_input):
        for idx in range(in_input.size):
            if delay_input.size:
                time.sleep(delay_input[idx] / 1000)
            in_value, idx_value = in_input[idx], np.array([idx], np.uint32)
            out_output = pb_utils.Tensor("OUT", np.array([in_value], np.int32))
            idx_output = pb_utils.Tensor("IDX", idx_value)
            response_sender.send(pb_utils.InferenceResponse(output_tensors=[idx_output, out_output]))
        response_sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        with self.inflight_thread_count_lck:
            self.inflight_thread_count -= 1

    def finalize(self):
        inflight_threads = True
        while inflight_threads:
            with self.inflight_thread_count_lck:
                inflight_threads = self.inflight_thread_count != 0
            if inflight_threads:
                time.sleep(0.1)
'''

REPEAT_CONFIG = """
name: "repeat"
backend: "python"
max_batch_size: 0
model_transaction_policy { decoupled: True }
input [
  { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] },
  { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }
]
output [
  { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }
]
instance_group [{ count: 1 kind: KIND_CPU }]
"""

SQUARE = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Sends the number n n times, and completes its own configuration."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        auto_complete_model_config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [1]})
        auto_complete_model_config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]})
        auto_complete_model_config.set_max_batch_size(0)
        auto_complete_model_config.set_model_transaction_policy({"decoupled": True})
        return auto_complete_model_config

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            n = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            if n < 0:
                error = pb_utils.TritonError("a negative number has no square here", pb_utils.TritonError.INVALID_ARG)
                sender.send(pb_utils.InferenceResponse(error=error), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                continue
            for _ in range(n):
                if request.is_cancelled():
                    print("cancelled", flush=True)
                    break
                out = pb_utils.Tensor("OUT", np.array([n], np.int32))
                sender.send(pb_utils.InferenceResponse([out]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
'''

SAME = '''
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Answers batches as they are, and says of itself that it takes batches."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        auto_complete_model_config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [2]})
        auto_complete_model_config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [2]})
        auto_complete_model_config.set_max_batch_size(4)
        auto_complete_model_config.set_dynamic_batching()
        return auto_complete_model_config

    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN") for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.as_numpy())]) for each in tensors]
'''

COUNT_ROWS = '''
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Says in each row how many rows it got together, and takes so long that others come meanwhile."""

    def execute(self, requests):
        time.sleep(0.05)
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        rows = sum(len(tensor) for tensor in tensors)
        counts = [np.full((len(tensor), 1), rows, np.int32) for tensor in tensors]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each)]) for each in counts]
'''

COUNT_ROWS_CONFIG = """
backend: "python"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
dynamic_batching { }
"""

LAST = '''
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
POLICY = {"decoupled": True}


class TritonPythonModel:
    """Sends the flag of the last response with it or apart from it, in execute or in a thread."""

    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "ASK", "data_type": "TYPE_INT32", "dims": [3]})
        config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]})
        config.set_model_transaction_policy(POLICY)
        return config

    def execute(self, requests):
        for request in requests:
            count, apart, threaded = pb_utils.get_input_tensor_by_name(request, "ASK").as_numpy().tolist()
            sender = request.get_response_sender()
            if threaded:
                threading.Thread(target=self.respond, args=(sender, count, apart), daemon=True).start()
            else:
                self.respond(sender, count, apart)

    def respond(self, sender, count, apart):
        for number in range(count):
            response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([number], np.int32))])
            sender.send(response, flags=0 if apart or number < count - 1 else FINAL)
        if apart:
            sender.send(flags=FINAL)
'''

MODELS = {
    "add_sub": (ADD_SUB, ADD_SUB_CONFIG),
    "count_rows": (COUNT_ROWS, COUNT_ROWS_CONFIG),
    "last": (LAST, 'backend: "python"'),
    "repeat": (REPEAT, REPEAT_CONFIG),
    "same": (SAME, 'backend: "python"'),
    "square": (SQUARE, 'backend: "python"'),
}


def written(root: Path, name: str, more: str = "") -> Path:
    """The folder of one of these models, as Triton's repositories have it."""
    code, config = MODELS[name]
    folder = root / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(code)
    (root / name / "config.pbtxt").write_text(config + more)
    return root / name
