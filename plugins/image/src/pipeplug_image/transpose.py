"""`image.transpose`."""

from __future__ import annotations

from pipeplug import ArgumentError, Context, Operator, SpecError, Tensor, TensorSpec


class Transpose(Operator):
    """Bring dimensions into another order.

    Inputs: numbers whose layout has the letters of `layout`; three dimensions without a layout count as HWC.
    Outputs: the same numbers, contiguous in the new layout.

    Args:
        layout: the letters of the dimensions in the new order, such as `"CHW"`.
    """

    layout: str

    def check(self) -> None:
        if len(set(self.layout)) != len(self.layout) or not self.layout:
            raise ArgumentError(f"a layout names each dimension once, got {self.layout!r}")

    def infer(self, values: TensorSpec) -> TensorSpec:
        source = self.source(values)
        if values.shape is None:
            return TensorSpec((None,) * len(self.layout), values.dtype, self.layout)
        shape = tuple(values.shape[source.index(each)] for each in self.layout)
        return TensorSpec(shape, values.dtype, self.layout)

    def source(self, values: TensorSpec) -> str:
        """The layout of the input. Raises SpecError when it does not have the letters of the new one."""
        if values.is_object:
            raise SpecError("needs numbers, got a Python object; decode it first")
        source = values.layout or ("HWC" if values.shape is None or len(values.shape) == 3 else None)
        if source is None:
            raise SpecError(f"needs a layout, got {values}; eager calls take Tensor(array, layout)")
        if sorted(source) != sorted(self.layout):
            raise SpecError(f"cannot bring layout {source} to {self.layout}: the letters differ")
        return source

    def cpu(self, values: Tensor, context: Context) -> Tensor:
        from pipeplug_image.kernels.geometry import transpose

        out: Tensor = context.empty(self.infer(values.spec))
        transpose(values.numpy(), self.source(values.spec), self.layout, out=out.numpy())
        return out
