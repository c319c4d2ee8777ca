"""Arrays of others: NumPy's, PyTorch's, array.array, memoryview. Their bytes are read where they lie, by the buffer protocol or DLPack;
what has another dtype or shape, or does not lie densely, is refused."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Optional, Sequence, Tuple

from ._api import Dtype, ebb_shape
from ._errors import UsageError

NAMES = {Dtype.F32: "float32", Dtype.I32: "int32", Dtype.F64: "float64"}
_FORMATS = {"f": "float32", "i": "int32", "l": "int64", "q": "int64", "d": "float64", "B": "uint8", "e": "float16", "h": "int16", "?": "bool", "b": "int8",
            "I": "uint32", "L": "uint64", "Q": "uint64", "H": "uint16"}
_CODES = {Dtype.F32: "f", Dtype.I32: "i", Dtype.F64: "d"}


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Bytes:
    """Where the elements of an array lie, and what they are. `keep` must live as long as the address is used."""

    def __init__(self, address: int, dtype: str, shape: Tuple[int, ...], keep: Any) -> None:
        self.address, self.dtype, self.shape, self.keep = address, dtype, shape, keep


def _by_buffer(array: Any, what: str) -> Bytes:
    view = memoryview(array)
    if not view.c_contiguous:
        raise UsageError(f"{what}: the array is not contiguous; copy it first (numpy.ascontiguousarray)")
    code = view.format.lstrip("@=" + ("<" if sys.byteorder == "little" else ">"))
    name = _FORMATS.get(code, view.format)
    if name in ("int64", "uint64") and view.itemsize == 4:  # "l" where long has 4 bytes
        name = name.replace("64", "32")
    return Bytes(_address(view), name, tuple(view.shape or ()), view)


def _address(view: memoryview) -> int:
    """Where a view begins, also of what may only be read. The first member of a Py_buffer is that address."""
    buffer = (ctypes.c_void_p * 32)()
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get.argtypes, release.argtypes = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int), (ctypes.c_void_p,)
    get(view, buffer, 0x38)  # PyBUF_C_CONTIGUOUS: the view is
    address = buffer[0]
    release(buffer)
    return int(address or 0)


def _by_dlpack(array: Any, what: str) -> Bytes:
    try:
        device = array.__dlpack_device__()[0]
        if getattr(array, "requires_grad", False):
            array = array.detach()
        capsule = array.__dlpack__() if device == 1 else None  # its own destructor frees it, since it is not marked as used
    except Exception as why:  # sparse, without memory, of a dtype that DLPack has not: everybody has exceptions of their own
        raise UsageError(f"{what}: {type(array).__name__} cannot be read as an array: {' '.join(str(why).split())}") from why
    if device != 1:
        raise UsageError(f"{what}: the array is not in the CPU's memory; copy it there first (.cpu())")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    dense = 1
    for i in reversed(range(tensor.ndim)):
        if tensor.strides and shape[i] > 1 and tensor.strides[i] != dense:
            raise UsageError(f"{what}: the array is not contiguous; copy it first (.contiguous())")
        dense *= shape[i]
    kinds = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
    name = f"{kinds.get(tensor.code, '?')}{tensor.bits}" + (f"x{tensor.lanes}" if tensor.lanes != 1 else "")
    return Bytes((tensor.data or 0) + tensor.byte_offset, name, shape, (capsule, array))


def bytes_of(array: Any, what: str) -> Bytes:
    """The bytes of any array; `what` starts the message where it has none that can be read."""
    try:
        memoryview(array)
    except (TypeError, BufferError, ValueError):
        if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
            return _by_dlpack(array, what)
        raise UsageError(f"{what}: {type(array).__name__} is no array; give a NumPy array, a tensor, or what has the buffer protocol") from None
    return _by_buffer(array, what)


def dims_of(shape: ebb_shape) -> Tuple[int, ...]:
    """The sizes of a shape."""
    return tuple(shape.dims[i] for i in range(shape.rank))


def _text(shape: Sequence[int]) -> str:
    return "[" + ", ".join(str(size) for size in shape) + "]"


def checked(array: Any, shape: ebb_shape, what: str) -> Bytes:
    """The bytes of an array that is to be the value of this shape."""
    found = bytes_of(array, what)
    wanted, dims = NAMES[Dtype(shape.dtype)], dims_of(shape)
    if found.dtype != wanted:
        raise UsageError(f"{what}: an array of {found.dtype}, where {wanted} {_text(dims)} is needed; convert it first (.astype, .to)")
    if found.shape != dims:
        raise UsageError(f"{what}: an array of shape {_text(found.shape)}, where {_text(dims)} is needed")
    return found


def _numpy() -> Optional[Any]:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _cast(flat: Any, shape: ebb_shape) -> Any:
    return flat.cast(_CODES[Dtype(shape.dtype)], dims_of(shape))


def view_of(address: int, shape: ebb_shape, keep: Any, writable: bool) -> Any:
    """Memory of the library as an array over the very bytes: NumPy's where it is there, else a memoryview. `keep` lives as long as it."""
    room = (ctypes.c_char * shape.bytes).from_address(address)
    room._keep = keep
    flat = memoryview(room).cast("B")
    numpy = _numpy()
    if numpy is not None:
        array = numpy.frombuffer(flat, dtype=NAMES[Dtype(shape.dtype)]).reshape(dims_of(shape))
        array.flags.writeable = writable
        return array
    view = _cast(flat, shape)
    return view if writable else view.toreadonly()


def new(shape: ebb_shape) -> Tuple[Any, int]:
    """A new array of the shape, and the address of its bytes."""
    numpy = _numpy()
    if numpy is not None:
        array = numpy.empty(dims_of(shape), dtype=NAMES[Dtype(shape.dtype)])
        return array, int(array.ctypes.data)
    room = (ctypes.c_char * shape.bytes)()
    return _cast(memoryview(room).cast("B"), shape), ctypes.addressof(room)
