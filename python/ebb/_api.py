"""The interface of include/ebb.h, written by tools/python_api.py: do not edit."""
from __future__ import annotations

from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint8,
                    c_uint32, c_uint64, c_void_p)
from enum import IntEnum
from typing import Any, Dict, Tuple

EBB_NO_VALUE = -1
EBB_MAX_RANK = 6
EBB_KIND_ROOM = 16
EBB_DIM_ROOM = 8


class Status(IntEnum):
    OK = 0  # done
    INTERNAL = 1  # internal error
    USAGE = 2  # wrong usage
    DATA = 3  # bad data
    BUDGET = 4  # does not fit the memory budget
    MODEL = 5  # bad model or checkpoint
    DIVERGED = 6  # training diverged
    IO = 7  # input or output failed
    NOMEM = 8  # the system gave no memory
    LOST = 9  # a process was lost
    STOPPED = 75  # stopped by a signal, state saved


class LogLevel(IntEnum):
    ERROR = 0
    WARN = 1
    INFO = 2
    DEBUG = 3


class Reduce(IntEnum):
    SLICES = 0
    COPIES = 1
    CENTRAL = 2
    AUTO = 3


class Optimizer(IntEnum):
    FORWARD = 0
    SGD = 1
    ADAM = 2
    ADAMW = 3


class Kind(IntEnum):
    WEIGHTS = 0
    GRADIENTS = 1
    OPTIMIZER = 2
    STASH = 3
    WORKSPACE = 4
    DATA = 5
    PROGRAM = 6
    UNUSED = 7
    KINDS = 8


class Picture(IntEnum):
    STEP = 0
    CURVE = 1


class Dtype(IntEnum):
    F32 = 0
    I32 = 1
    F64 = 2


class Role(IntEnum):
    PARAM = 0
    SLOT = 1
    STATE = 2
    INPUT = 3
    OUTPUT = 4


class Unk(IntEnum):
    UNK_REPLACE = 0
    UNK_BAN = 1
    UNK_KEEP = 2


class ebb_ranks_options(Structure):
    _fields_ = [
        ("version", c_uint32),
        ("reserved_word", c_int32),
        ("lost_after", c_double),
        ("plugin", c_char_p),
        ("reserved", c_uint64 * 6),
    ]


class ebb_options(Structure):
    _fields_ = [
        ("version", c_uint32),
        ("threads", c_int32),
        ("memory", c_uint64),
        ("optimizer", c_int),
        ("momentum", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("eps", c_double),
        ("weight_decay", c_double),
        ("clip", c_double),
        ("disable", c_char_p),
        ("shards", c_int64),
        ("device", c_char_p),
        ("kernels", c_char_p),
        ("ranks", c_void_p),
        ("stages", c_int32),
        ("reduce", c_int32),
        ("reserved", c_uint64 * 3),
    ]


class ebb_device(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("what", c_char_p),
        ("why_not", c_char_p),
        ("memory_bytes", c_uint64),
        ("largest_bytes", c_uint64),
        ("is_cpu", c_int32),
        ("reserved_word", c_int32),
        ("reserved", c_uint64 * 4),
    ]


class ebb_plan_info(Structure):
    _fields_ = [
        ("peak_bytes", c_uint64),
        ("least_bytes", c_uint64),
        ("keep_all_bytes", c_uint64),
        ("budget_bytes", c_uint64),
        ("bytes_by_kind", c_uint64 * 16),
        ("seconds_per_step", c_double),
        ("nodes", c_int64),
        ("hash", c_uint64),
        ("threads", c_int32),
        ("reduce", c_int32),
        ("reserved", c_uint64 * 8),
    ]


class ebb_shape(Structure):
    _fields_ = [
        ("role", c_int),
        ("dtype", c_int),
        ("rank", c_int32),
        ("reserved", c_int32),
        ("dims", c_int64 * 8),
        ("bytes", c_uint64),
    ]


class ebb_run_options(Structure):
    _fields_ = [
        ("version", c_uint32),
        ("threads", c_int32),
        ("memory", c_uint64),
        ("batch", c_int64),
        ("weights", c_char_p),
        ("device", c_char_p),
        ("kernels", c_char_p),
        ("reserved", c_uint64 * 5),
    ]


class ebb_translate_options(Structure):
    _fields_ = [
        ("version", c_uint32),
        ("beam", c_int32),
        ("nbest", c_int32),
        ("unk", c_int32),
        ("length_penalty", c_double),
        ("max_ratio", c_double),
        ("others", POINTER(c_char_p)),
        ("n_others", c_uint64),
        ("reserved", c_uint64 * 6),
    ]


class ebb_translation(Structure):
    _fields_ = [
        ("line", c_uint64),
        ("rank", c_int32),
        ("ended", c_int32),
        ("text", c_char_p),
        ("bytes", c_uint64),
        ("log_prob", c_double),
        ("score", c_double),
        ("reserved", c_uint64 * 4),
    ]


class ebb_generate_options(Structure):
    _fields_ = [
        ("version", c_uint32),
        ("stop_at_eos", c_int32),
        ("tokens", c_int64),
        ("temperature", c_double),
        ("seed", c_uint64),
        ("prompt", c_char_p),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("reserved", c_uint64 * 6),
    ]


class ebb_score(Structure):
    _fields_ = [
        ("log_prob", c_double),
        ("tokens", c_uint64),
        ("unknown", c_uint64),
        ("reserved", c_uint64),
    ]


ebb_log_fn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ebb_text_fn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64)
ebb_progress_fn = CFUNCTYPE(None, c_void_p, c_char_p, c_uint64, c_uint64)
ebb_stop_fn = CFUNCTYPE(c_int, c_void_p)
ebb_getenv_fn = CFUNCTYPE(c_char_p, c_char_p)
ebb_device_fn = CFUNCTYPE(None, c_void_p, POINTER(ebb_device))
ebb_translation_fn = CFUNCTYPE(c_int, c_void_p, POINTER(ebb_translation))

# Result and parameters of every function.
FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "ebb_status_text": (c_char_p, (c_int,)),
    "ebb_version": (c_char_p, ()),
    "ebb_ctx_new": (c_int, (POINTER(c_void_p),)),
    "ebb_ctx_free": (None, (c_void_p,)),
    "ebb_ctx_on_log": (None, (c_void_p, ebb_log_fn, c_void_p)),
    "ebb_ctx_on_progress": (None, (c_void_p, ebb_progress_fn, c_void_p)),
    "ebb_ctx_on_stop": (None, (c_void_p, ebb_stop_fn, c_void_p)),
    "ebb_last_error": (c_char_p, (c_void_p,)),
    "ebb_least_bytes": (c_uint64, (c_void_p,)),
    "ebb_graph_new": (c_int, (c_void_p, POINTER(c_void_p))),
    "ebb_graph_free": (None, (c_void_p,)),
    "ebb_graph_status": (c_int, (c_void_p,)),
    "ebb_graph_seed": (None, (c_void_p, c_uint64)),
    "ebb_layer": (None, (c_void_p, c_char_p)),
    "ebb_time": (None, (c_void_p, c_int32)),
    "ebb_param": (c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int64))),
    "ebb_input_f32": (c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int64))),
    "ebb_input_i32": (c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int64))),
    "ebb_state": (c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int64))),
    "ebb_carry": (None, (c_void_p, c_int32, c_int32)),
    "ebb_embed": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_linear": (c_int32, (c_void_p, c_int32, c_int32, c_int32)),
    "ebb_matmul": (c_int32, (c_void_p, c_int32, c_int32, c_int32, c_int32, c_int32)),
    "ebb_transpose": (c_int32, (c_void_p, c_int32)),
    "ebb_add": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_sub": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_mul": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_scale": (c_int32, (c_void_p, c_int32, c_double)),
    "ebb_add_row": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_tanh": (c_int32, (c_void_p, c_int32)),
    "ebb_sigmoid": (c_int32, (c_void_p, c_int32)),
    "ebb_relu": (c_int32, (c_void_p, c_int32)),
    "ebb_softmax": (c_int32, (c_void_p, c_int32)),
    "ebb_dropout": (c_int32, (c_void_p, c_int32, c_double, c_char_p)),
    "ebb_lstm_cell": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_int32))),
    "ebb_gru_cell": (c_int32, (c_void_p, c_int32, c_int32, c_int32)),
    "ebb_slice": (c_int32, (c_void_p, c_int32, c_int32, c_int64, c_int64)),
    "ebb_join": (c_int32, (c_void_p, c_int32, POINTER(c_int32), c_int32)),
    "ebb_stack": (c_int32, (c_void_p, POINTER(c_int32), c_int32)),
    "ebb_concat": (c_int32, (c_void_p, POINTER(c_int32), c_int32)),
    "ebb_copy": (c_int32, (c_void_p, c_int32)),
    "ebb_add_each": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_sum_each": (c_int32, (c_void_p, c_int32, c_int64)),
    "ebb_dot_rows": (c_int32, (c_void_p, c_int32, c_int32, c_int64)),
    "ebb_dot_each": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_mask_softmax": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_weighted_sum": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_mask_rows": (c_int32, (c_void_p, c_int32, c_int32, c_int64)),
    "ebb_layer_norm": (c_int32, (c_void_p, c_int32, c_int32, c_int32, c_double, c_int64)),
    "ebb_sum": (c_int32, (c_void_p, c_int32)),
    "ebb_mean": (c_int32, (c_void_p, c_int32)),
    "ebb_cross_entropy": (c_int32, (c_void_p, c_int32, c_int32)),
    "ebb_cross_entropy_smooth": (c_int32, (c_void_p, c_int32, c_int32, c_double)),
    "ebb_loss": (None, (c_void_p, c_int32)),
    "ebb_output": (None, (c_void_p, c_char_p, c_int32)),
    "ebb_gradient": (None, (c_void_p, c_int32)),
    "ebb_ranks_options_default": (ebb_ranks_options, ()),
    "ebb_ranks_open": (c_int, (c_void_p, ebb_getenv_fn, POINTER(ebb_ranks_options), POINTER(c_void_p))),
    "ebb_ranks_count": (c_int32, (c_void_p,)),
    "ebb_ranks_number": (c_int32, (c_void_p,)),
    "ebb_ranks_close": (None, (c_void_p,)),
    "ebb_options_default": (ebb_options, ()),
    "ebb_devices": (c_int, (c_void_p, c_char_p, ebb_device_fn, c_void_p)),
    "ebb_kind_name": (c_char_p, (c_int,)),
    "ebb_graph_plan": (c_int, (c_void_p, POINTER(ebb_options), POINTER(ebb_plan_info))),
    "ebb_graph_draw": (c_int, (c_void_p, POINTER(ebb_options), c_int, c_char_p, ebb_text_fn, c_void_p)),
    "ebb_compile": (c_int, (c_void_p, POINTER(ebb_options), POINTER(c_void_p))),
    "ebb_compile_all": (c_int, (POINTER(c_void_p), c_int32, c_int32, POINTER(ebb_options), POINTER(c_void_p))),
    "ebb_program_free": (None, (c_void_p,)),
    "ebb_program_follow": (c_int, (c_void_p,)),
    "ebb_program_plan": (c_int, (c_void_p, POINTER(ebb_plan_info))),
    "ebb_program_measured": (c_uint64, (c_void_p,)),
    "ebb_value_shape": (c_int, (c_void_p, c_int32, POINTER(ebb_shape))),
    "ebb_program_name": (c_char_p, (c_void_p, c_int32)),
    "ebb_program_shape": (c_int, (c_void_p, c_char_p, POINTER(ebb_shape))),
    "ebb_program_set": (c_int, (c_void_p, c_char_p, c_void_p, c_size_t)),
    "ebb_program_get": (c_int, (c_void_p, c_char_p, c_void_p, c_size_t)),
    "ebb_program_data": (c_int, (c_void_p, c_char_p, POINTER(c_void_p), POINTER(ebb_shape))),
    "ebb_program_init": (c_int, (c_void_p, c_uint64)),
    "ebb_program_run": (c_int, (c_void_p, c_double)),
    "ebb_program_loss": (c_double, (c_void_p,)),
    "ebb_program_grad_norm": (c_double, (c_void_p,)),
    "ebb_program_steps": (c_uint64, (c_void_p,)),
    "ebb_program_set_steps": (None, (c_void_p, c_uint64)),
    "ebb_program_save": (c_int, (c_void_p, c_char_p)),
    "ebb_program_load": (c_int, (c_void_p, c_char_p)),
    "ebb_program_save_all": (c_int, (c_void_p, c_char_p)),
    "ebb_program_load_all": (c_int, (c_void_p, c_char_p)),
    "ebb_program_copy": (c_int, (c_void_p, c_void_p)),
    "ebb_run_options_default": (ebb_run_options, ()),
    "ebb_run_open": (c_int, (c_void_p, c_char_p, POINTER(ebb_run_options), POINTER(c_void_p))),
    "ebb_run_close": (None, (c_void_p,)),
    "ebb_run_kind": (c_char_p, (c_void_p,)),
    "ebb_run_plan": (c_int, (c_void_p, POINTER(ebb_plan_info))),
    "ebb_run_measured": (c_uint64, (c_void_p,)),
    "ebb_run_draw": (c_int, (c_void_p, ebb_text_fn, c_void_p)),
    "ebb_translate_options_default": (ebb_translate_options, ()),
    "ebb_run_translate": (c_int, (c_void_p, POINTER(c_char_p), c_uint64, POINTER(ebb_translate_options), ebb_translation_fn, c_void_p)),
    "ebb_generate_options_default": (ebb_generate_options, ()),
    "ebb_run_generate": (c_int, (c_void_p, POINTER(ebb_generate_options), ebb_text_fn, c_void_p)),
    "ebb_run_score": (c_int, (c_void_p, POINTER(c_char_p), POINTER(c_char_p), c_uint64, POINTER(ebb_score))),
    "ebb_run_classes": (c_int64, (c_void_p,)),
    "ebb_run_class_name": (c_char_p, (c_void_p, c_int64)),
    "ebb_run_predict_files": (c_int, (c_void_p, POINTER(c_char_p), c_uint64, POINTER(c_double))),
    "ebb_run_predict": (c_int, (c_void_p, POINTER(c_uint8), c_uint64, c_uint32, c_uint32, c_uint32, POINTER(c_double))),
}
