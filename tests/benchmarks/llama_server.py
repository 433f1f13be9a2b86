"""llama.cpp's own server, from the wheel xllamacpp, in a process of its own.

    python tests/benchmarks/llama_server.py MODEL --threads 1 --parallel 8 --draft ngram_simple

Says where it listens on its first line, and ends with its standard input.
"""

import argparse
import sys

DRAFTS = ("none", "ngram_simple", "ngram_map_k", "ngram_map_k4v", "ngram_mod", "ngram_cache")


def main() -> int:
    """Serve until nobody listens any more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--context-tokens", type=int, default=2048, help="of each slot")
    parser.add_argument("--unified", action="store_true", help="one key-value memory for all slots")
    parser.add_argument("--metrics", action="store_true", help="gauges at /metrics")
    parser.add_argument("--embeddings", action="store_true", help="vectors at /v1/embeddings")
    parser.add_argument("--draft", choices=DRAFTS, default="none")
    arguments = parser.parse_args()
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.n_parallel = arguments.parallel
    params.n_ctx = arguments.parallel * arguments.context_tokens
    params.kv_unified = arguments.unified
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    params.n_gpu_layers = 0
    params.warmup = True
    params.endpoint_metrics = arguments.metrics
    if arguments.embeddings:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    kinds = xllamacpp.common_speculative_type
    params.speculative.types = [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{arguments.draft.upper()}")]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
