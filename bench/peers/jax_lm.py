#!/usr/bin/env python3
"""Speed peer: the training step of `ebb bench lm` in JAX.

Prints one JSON object (see common.py). One jitted step with donated weights and state; each layer
multiplies its inputs of all times at once, then scans over time; dropout outside of the scan.
"""
import common

chosen = common.options(__doc__.splitlines()[0], ("jit",))
common.limit_cores(chosen.threads)
common.limit_xla(chosen.threads)

import jax  # noqa: E402  (after the cores are limited)
import jax.numpy as jnp  # noqa: E402

LOADED = common.resident_bytes("VmRSS")
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def lstm_cell(w_hh, _b_hh, carry, gates):
    hidden, memory = carry
    i, f, g, o = jnp.split(gates + hidden @ w_hh, 4, axis=1)
    memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
    hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
    return (hidden, memory), hidden


def gru_cell(w_hh, b_hh, carry, gates):
    (hidden,) = carry
    xr, xz, xn = jnp.split(gates, 3, axis=1)
    hr, hz, hn = jnp.split(hidden @ w_hh + b_hh, 3, axis=1)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    n = jnp.tanh(xn + r * hn)
    hidden = n + z * (hidden - n)
    return (hidden,), hidden


def rnn_cell(w_hh, _b_hh, carry, gates):
    hidden = jnp.tanh(gates + carry[0] @ w_hh)
    return (hidden,), hidden


CELLS = {"lstm": lstm_cell, "gru": gru_cell, "rnn": rnn_cell}


def make_params(o, key):
    """Weights as [in, out], which is what XLA's CPU products like best."""
    keys = iter(jax.random.split(key, 3 + 4 * o.layers))
    rows, bound = GATES[o.cell] * o.hidden, o.hidden ** -0.5
    uniform = lambda *shape: jax.random.uniform(next(keys), shape, minval=-bound, maxval=bound)  # noqa: E731
    layers = [{"w_ih": uniform(o.embed if layer == 0 else o.hidden, rows), "b_ih": uniform(rows),
               "w_hh": uniform(o.hidden, rows), "b_hh": uniform(rows)} for layer in range(o.layers)]
    return {"embed": jax.random.normal(next(keys), (o.vocab, o.embed)), "layers": layers,
            "out": uniform(o.hidden, o.vocab), "bias": uniform(o.vocab)}


def dropped(values, key):
    if chosen.dropout <= 0:
        return values
    kept = jax.random.bernoulli(key, 1 - chosen.dropout, values.shape)
    return jnp.where(kept, values / (1 - chosen.dropout), 0)


def loss_of(params, state, inputs, targets, key):
    """inputs, targets [T, B]; state: for each layer ([B, H], ...); mean loss and the new state."""
    keys = jax.random.split(key, chosen.layers + 1)
    hidden = dropped(params["embed"][inputs], keys[0])
    after = []
    for layer, weights in enumerate(params["layers"]):
        bias = weights["b_ih"] if chosen.cell == "gru" else weights["b_ih"] + weights["b_hh"]
        gates = hidden @ weights["w_ih"] + bias
        cell = CELLS[chosen.cell]
        carry, hidden = jax.lax.scan(
            lambda c, g, w=weights, f=cell: f(w["w_hh"], w["b_hh"], c, g), state[layer], gates)
        after.append(carry)
        hidden = dropped(hidden, keys[layer + 1])
    logits = hidden.reshape(-1, chosen.hidden) @ params["out"] + params["bias"]
    wanted = jnp.take_along_axis(logits, targets.reshape(-1, 1), axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - wanted), after


def train_step(params, state, key, inputs, targets):
    key, drop_key = jax.random.split(key)
    (loss, state), grads = jax.value_and_grad(loss_of, has_aux=True)(params, state, inputs, targets, drop_key)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    rate = chosen.lr * jnp.minimum(1.0, chosen.clip / (norm + 1e-6))
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), state, key, loss


def main():
    # A faster generator than the default, for dropout masks.
    key, data_key, init_key = jax.random.split(jax.random.key(chosen.seed, impl="rbg"), 3)
    late = common.resident_bytes("VmRSS") - LOADED  # XLA's start
    params = make_params(chosen, init_key)
    zeros = lambda: jnp.zeros((chosen.batch, chosen.hidden))  # noqa: E731
    state = [tuple(zeros() for _ in range(2 if chosen.cell == "lstm" else 1)) for _ in range(chosen.layers)]
    inputs, targets = jax.random.randint(data_key, (2, chosen.bptt, chosen.batch), 0, chosen.vocab)
    jitted = jax.jit(train_step, donate_argnums=(0, 1, 2))

    def step():
        nonlocal params, state, key
        params, state, key, loss = jitted(params, state, key, inputs, targets)
        return float(loss)

    common.measure(step, chosen, f"JAX {jax.__version__}", LOADED, late)


if __name__ == "__main__":
    main()
