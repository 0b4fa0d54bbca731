"""The model `tokens` for LitServe, behind its OpenAI spec."""

import sys

import litserve


class Tokens(litserve.LitAPI):
    def setup(self, device):
        """Nothing to load."""

    def predict(self, messages):
        for i in range(256):
            yield f" token{i}"


if __name__ == "__main__":
    server = litserve.LitServer(Tokens(spec=litserve.OpenAISpec()), accelerator="cpu", fast_queue=True)
    server.run(port=int(sys.argv[1]), host="127.0.0.1", num_api_servers=1, generate_client_file=False)
