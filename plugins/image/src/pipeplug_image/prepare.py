"""The two halves of decoding on a GPU: what threads of the CPU prepare, and what is then decoded in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pipeplug import Array, Batch, Context, CudaContext
from pipeplug_image.codecs.jobs import Boxes, Decoded, Job, find_jobs
from pipeplug_image.decode import Decode, Part, content

if TYPE_CHECKING:
    from pipeplug_image.codecs.cuda import DeviceDecoder
    from pipeplug_image.codecs.decode import Decoder

Prepared: TypeAlias = Job | Decoded | None


def prepared(
    decode: Decode,
    encoded: Sequence[object],
    context: Context,
    state: Decoder,
    boxes: Boxes | None = None,
    part_of: Callable[[int], Array] | None = None,
) -> list[Prepared]:
    """The jobs for the GPU, and what it does not take, decoded; None for a sample that has failed.

    Args:
        decode: the operator.
        encoded: what is to be decoded.
        context: of the kernel.
        state: the CPU's decoder.
        boxes: gives the parts to decode; None for whole images.
        part_of: decodes the part of a row on the CPU; what it gives may be overwritten by its next call.
    """
    found: list[Prepared] = [*find_jobs(encoded, [_content(each) for each in encoded], decode.options, boxes)]
    for row, job in enumerate(found):
        if job is None:
            try:
                whole = decode.whole(encoded[row], state) if part_of is None else part_of(row).copy()
                found[row] = Decoded(whole)
            except Exception as error:
                context.fail(row, error)
    return found


def _content(encoded: object) -> bytes:
    """What is to be decoded; nothing where it cannot be had, of which the CPU's decoder will say why."""
    try:
        return content(encoded)
    except Exception:
        return b""


def decoded(decode: Decode, work: Sequence[Prepared], context: CudaContext, state: DeviceDecoder) -> Batch:
    """What was prepared, on the device, without the samples that have failed."""

    def by_cpu(job: Job) -> Array:
        box = job.box
        return decode.whole(job.encoded, state) if box is None else _part(decode, job.encoded, box, state)

    return state.on(context.device).decode(work, decode.options, by_cpu, context)


def _part(decode: Decode, encoded: object, box: Part, state: Decoder) -> Array:
    return decode.part(encoded, lambda shape: box, state).copy()
