#!/usr/bin/env python3
"""Speed peer: the training step of `ebb bench nmt --feed` in JAX; with remat, decoder steps are computed again.

Prints one JSON object (see common.py). One jitted step with donated weights and optimiser state. What
does not depend on the step before is one product over all times: the encoder's inputs, the
decoder's embeddings, the projection. remat keeps only the state between decoder steps.
"""
import common

chosen = common.nmt_options(__doc__.splitlines()[0], ("plain", "remat"))
common.limit_cores(chosen.threads)
common.limit_xla(chosen.threads)

import jax  # noqa: E402  (after the cores are limited)
import jax.numpy as jnp  # noqa: E402

LOADED = common.resident_bytes("VmRSS")
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def make_params(o, key):
    """Weights as [in, out], which is what XLA's CPU products like best; H hidden, V vocabulary."""
    keys = iter(jax.random.split(key, 32))
    size, half = o.hidden, o.hidden // 2
    normal = lambda *shape: jax.random.normal(next(keys), shape)  # noqa: E731

    def uniform(bound, *shape):
        return jax.random.uniform(next(keys), shape, minval=-bound ** -0.5, maxval=bound ** -0.5)

    def lstm(inputs, hidden):
        return {"w_ih": uniform(hidden, inputs, 4 * hidden), "w_hh": uniform(hidden, hidden, 4 * hidden),
                "b_ih": uniform(hidden, 4 * hidden), "b_hh": uniform(hidden, 4 * hidden)}

    return {"src_embed": normal(o.vocab, size), "tgt_embed": normal(o.vocab, size),
            "forth": lstm(size, half), "back": lstm(size, half),
            "dec": {**lstm(size, size), "w_fed": uniform(size, size, 4 * size)},
            "key": uniform(size, size, size), "query": uniform(size, size, size), "query_bias": uniform(size, size),
            "score": uniform(size, size), "mix_hidden": uniform(2 * size, size, size),
            "mix_context": uniform(2 * size, size, size), "mix_bias": uniform(2 * size, size),
            "out": uniform(size, size, o.vocab), "out_bias": uniform(size, o.vocab)}


def cell(gates, memory):
    i, f, g, o = jnp.split(gates, 4, axis=1)
    memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(memory), memory


def recur(weights, inputs, reverse):
    """[S, B, H] to [S, B, H/2], one direction."""
    gates = inputs @ weights["w_ih"] + (weights["b_ih"] + weights["b_hh"])
    zeros = jnp.zeros((chosen.batch, chosen.hidden // 2))

    def body(carry, at):
        carry = cell(at + carry[0] @ weights["w_hh"], carry[1])
        return carry, carry[0]

    return jax.lax.scan(body, (zeros, zeros), gates, reverse=reverse)[1]


def loss_of(params, source, inputs, targets):
    """source [S, B]; inputs, targets [T, B]: the mean loss."""
    embedded = params["src_embed"][source]
    memory = jnp.concatenate((recur(params["forth"], embedded, False), recur(params["back"], embedded, True)), 2)
    memory = memory.transpose(1, 0, 2)  # [B, S, H]
    keys, dec = memory @ params["key"], params["dec"]
    gates = params["tgt_embed"][inputs] @ dec["w_ih"] + (dec["b_ih"] + dec["b_hh"])

    def body(carry, at):
        hidden, state, fed = carry
        hidden, state = cell(at + fed @ dec["w_fed"] + hidden @ dec["w_hh"], state)
        query = hidden @ params["query"] + params["query_bias"]
        weights = jax.nn.softmax(jnp.tanh(keys + query[:, None]) @ params["score"], axis=1)
        context = jnp.einsum("bs,bsh->bh", weights, memory)
        fed = jnp.tanh(hidden @ params["mix_hidden"] + context @ params["mix_context"] + params["mix_bias"])
        return (hidden, state, fed), fed

    if chosen.mode == "remat":
        body = jax.checkpoint(body, prevent_cse=False)  # a scan needs no such guard
    zeros = jnp.zeros((chosen.batch, chosen.hidden))
    mixed = jax.lax.scan(body, (zeros, zeros, zeros), gates)[1]
    logits = mixed.reshape(-1, chosen.hidden) @ params["out"] + params["out_bias"]
    wanted = jnp.take_along_axis(logits, targets.reshape(-1, 1), axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - wanted)


def train_step(params, first, second, count, source, inputs, targets):
    """Adam; first, second: decayed means of gradients and of their squares."""
    loss, grads = jax.value_and_grad(loss_of)(params, source, inputs, targets)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, chosen.clip / (norm + 1e-6))
    count = count + 1
    rate, unbias = chosen.lr / (1 - BETA1 ** count), jax.lax.rsqrt(1 - BETA2 ** count)
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * scale * g, first, grads)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * jnp.square(scale * g), second, grads)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) * unbias + EPSILON), params, first, second)
    return params, first, second, count, loss


def main():
    source_key, data_key, init_key = jax.random.split(jax.random.key(chosen.seed), 3)
    late = common.resident_bytes("VmRSS") - LOADED  # XLA's start
    state = [make_params(chosen, init_key)]
    state += [jax.tree.map(jnp.zeros_like, state[0]) for _ in range(2)] + [jnp.zeros(())]
    source = jax.random.randint(source_key, (chosen.src_len, chosen.batch), 0, chosen.vocab)
    inputs, targets = jax.random.randint(data_key, (2, chosen.tgt_len, chosen.batch), 0, chosen.vocab)
    jitted = jax.jit(train_step, donate_argnums=(0, 1, 2, 3))

    def step():
        *state[:], loss = jitted(*state, source, inputs, targets)
        return float(loss)

    common.measure(step, chosen, f"JAX {jax.__version__}", LOADED, late)


if __name__ == "__main__":
    main()
