"""Work on vector registers that LLVM does not find by itself: squares turned, searches in step.

Kernels call these; Python cannot. They are made of what LLVM has for any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.cgutils import get_item_pointer
from numba.extending import intrinsic

Generator = Callable[[Any, Any, Any, Any], Any]

#: Rows and columns of a square.
SQUARE = 8
INDEX = ir.IntType(32)


def _turn_square(
    _context: Any, block: Any, row: Any, column: Any, out: Any, j: Any, s: Any
) -> tuple[Any, Generator]:
    """Set the square of ``out`` from (j, s) to the turned one of ``block`` from (row, column).

    Both are arrays in C order of one type. Half of one row and half of another, taken in turns,
    make a row; after three times, each row is what was a column.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block, row, column, out, j, s = arguments
        of_block, of_out = signature.args[0], signature.args[3]
        kind = ir.VectorType(context.get_data_type(of_block.dtype), SQUARE)
        size = of_block.dtype.bitwidth // 8

        def place(of: Any, array: Any, first: Any, number: int, second: Any) -> Any:
            at = [builder.add(first, first.type(number)), second]
            return _pointer(context, builder, of, array, at, kind)

        rows = [
            builder.load(place(of_block, block, row, k, column), align=size) for k in range(SQUARE)
        ]
        middle = SQUARE // 2
        halves = [
            _constants([cell for k in half for cell in (k, SQUARE + k)])
            for half in (range(middle), range(middle, SQUARE))
        ]
        for _ in range(SQUARE.bit_length() - 1):
            rows = [
                builder.shuffle_vector(rows[k], rows[middle + k], half)
                for k in range(middle)
                for half in halves
            ]
        for k, turned in enumerate(rows):
            builder.store(turned, place(of_out, out, j, k, s), align=size)
        return context.get_dummy_value()

    return types.void(block, row, column, out, j, s), generate


def _set_bits(
    _context: Any, cells: Any, j: Any, s: Any, limits: Any, i: Any, out: Any, at: Any, bits: Any
) -> tuple[Any, Generator]:
    """Set ``out[i, bit, at]`` for all bits of how many limits cells reach; return which are NaN.

    The cells are those from ``cells[j, s]`` on, as many as an integer of ``out`` has bits. The
    limits are ``limits[i]``, increasing, then NaN, one less than the power of two of the bits.
    These are a tuple, 0, 1 and so on, the length of which is known when this is compiled.

    All cells are searched for at once: the limit in the middle gives the highest bit of each, and
    the bits that are known choose the limit of the next. So most of what would be comparing and
    adding is choosing, and the bits need no packing.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cells, j, s, limits, i, out, at, _ = arguments
        of_cells, of_limits, of_out = (signature.args[k] for k in (0, 3, 5))
        lanes = of_out.dtype.bitwidth
        integer = ir.IntType(lanes)
        kind = ir.VectorType(context.get_data_type(of_cells.dtype), lanes)
        place = _pointer(context, builder, of_cells, cells, [j, s], kind)
        row = builder.load(place, align=of_cells.dtype.bitwidth // 8)
        known: list[Any] = []

        def limit(depth: int, first: int, width: int) -> Any:
            """The one in the middle of those that the known bits leave of these limits."""
            half = width // 2
            if depth < len(known):
                upper = limit(depth + 1, first + half + 1, half)
                return builder.select(known[depth], upper, limit(depth + 1, first, half))
            at = [i, i.type(first + half)]
            one = builder.load(_pointer(context, builder, of_limits, limits, at, kind.element))
            alone = builder.insert_element(ir.Constant(kind, ir.Undefined), one, INDEX(0))
            return builder.shuffle_vector(alone, alone, _constants([0] * lanes))

        for bit in reversed(range(bits.count)):
            known.append(builder.fcmp_ordered(">=", row, limit(0, 0, (1 << bits.count) - 1)))
            place = _pointer(context, builder, of_out, out, [i, i.type(bit), at], integer)
            builder.store(builder.bitcast(known[-1], integer), place)
        nans = builder.fcmp_unordered("uno", row, row)
        return builder.zext(builder.bitcast(nans, integer), ir.IntType(64))

    return types.int64(cells, j, s, limits, i, out, at, bits), generate


turn_square: Any = intrinsic(_turn_square)
set_bits: Any = intrinsic(_set_bits)


def _pointer(context: Any, builder: Any, of: Any, array: Any, at: Sequence[Any], kind: Any) -> Any:
    """Where a cell of an array is, as something of this kind."""
    struct = context.make_array(of)(context, builder, array)
    return builder.bitcast(get_item_pointer(context, builder, of, struct, at), kind.as_pointer())


def _constants(numbers: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(INDEX, len(numbers)), list(numbers))
