"""LLVM IR of the code that runs the pieces of a kernel: groups of vectors, loops and branches of lanes, sequences of
calls."""

from collections.abc import Callable

from .called import GIVEN
from .layout import Layout
from .nodes import Calls, Choice, Moves, Piece


class Driver:
    """The function that runs a block of vectors: pieces, with loops and branches in between. Every piece runs on a
    group of vectors before the next piece begins, so that its code is fetched once for the group. A vector is done with
    a loop before the next one begins it, so that none waits for the others."""

    def __init__(self, layout: Layout, lanes: int, group: int, stage: int, arena: int, run: Callable):
        self.layout, self.lanes, self.group, self.stage, self.arena = layout, lanes, group, stage, arena
        #: returns the name of the function that runs `Calls` or `Moves`
        self.run = run
        #: the lines of the kernel, and of functions for single vectors
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.count = 0
        #: the key of the mask around each piece
        self.around: dict[int, tuple | None] = {}

    def any(self, key) -> str:
        """Return whether the mask of any lane is set."""
        self.count += 1
        n = self.count
        self.lines += [
            f"%p{n} = getelementptr i8, ptr %arena, i64 {self.layout.slot[key] * self.lanes}",
            f"%a{n} = call i1 @any(ptr %p{n})",
        ]
        return f"%a{n}"

    def nodes(self, nodes: list) -> None:
        """Add the code that runs these nodes on a group of vectors."""
        for node in nodes:
            if isinstance(node, Piece | Calls | Moves):
                what = self.function(node, None)
            else:
                self.count += 1
                what, outer, self.lines = f"@part{self.count}", self.lines, []
                self.node(node, None)
                head = f"define internal void {what}({GIVEN}) nounwind noinline {{"
                self.functions.append("\n".join([head, *self.lines, "ret void", "}"]))
                self.lines = outer
            self.lines.append(f"call void @each(ptr {what}, ptr %stage, ptr %uniform, ptr %arena, i64 %count)")

    def function(self, node: Piece | Calls | Moves, around) -> str:
        """Return the name of the function that runs a node on a vector."""
        if not isinstance(node, Piece):
            return self.run(node)
        self.around[node.index] = around
        return f"@piece{node.index}"

    def node(self, node, around) -> None:
        """Add the code that runs a node on one vector."""
        self.count += 1
        n = self.count
        if isinstance(node, Piece | Calls | Moves):
            self.lines.append(f"call void {self.function(node, around)}({GIVEN})")
        elif isinstance(node, Choice):
            for k, case in node.cases.items():
                key = ("mask", node.branches.index, k)
                self.lines += [f"br i1 {self.any(key)}, label %case{n}_{k}, label %past{n}_{k}", f"case{n}_{k}:"]
                for inner in case:
                    self.node(inner, key)
                self.lines += [f"br label %past{n}_{k}", f"past{n}_{k}:"]
        else:
            key = ("mask", node.loop.index, 0)
            self.lines += [f"br label %head{n}", f"head{n}:"]
            for inner in node.head:
                self.node(inner, around)
            self.lines += [f"br i1 {self.any(key)}, label %body{n}, label %end{n}", f"body{n}:"]
            for inner in node.body:
                self.node(inner, key)
            self.lines += [f"br label %head{n}", f"end{n}:"]

    def text(self) -> str:
        """Return the IR of `kernel` and of the functions that it calls."""
        w = self.lanes
        mask = f"<{w} x i8>" if w > 1 else "i8"
        some = f"call i8 @llvm.vector.reduce.or.v{w}i8(<{w} x i8> %mask)" if w > 1 else "or i8 %mask, 0"
        values = {"STAGE": self.stage, "ARENA": self.arena, "GROUP": self.group, "MASK": mask, "ALIGN": w, "SOME": some}
        text = "\n".join(self.functions) + DRIVER.replace("@@BODY@@", "\n".join(self.lines)) + ANY + EACH
        for name, value in values.items():
            text = text.replace(f"@@{name}@@", str(value))
        return text + (f"declare i8 @llvm.vector.reduce.or.v{w}i8(<{w} x i8>)\n" if w > 1 else "")


DRIVER = """
define internal void @kernel(ptr %stages, ptr %uniform, ptr %arena, i64 %vectors) nounwind {
  br label %next.group
next.group:
  %first = phi i64 [ 0, %0 ], [ %following, %end.group ]
  %place = mul i64 %first, @@STAGE@@
  %stage = getelementptr i8, ptr %stages, i64 %place
  %left = sub i64 %vectors, %first
  %last = icmp ult i64 %left, @@GROUP@@
  %count = select i1 %last, i64 %left, i64 @@GROUP@@
  br label %group
group:
@@BODY@@
  br label %end.group
end.group:
  %following = add i64 %first, %count
  %more = icmp ult i64 %following, %vectors
  br i1 %more, label %next.group, label %end
end:
  ret void
}
"""

ANY = """
define internal i1 @any(ptr %place) nounwind {
  %mask = load @@MASK@@, ptr %place, align @@ALIGN@@
  %some = @@SOME@@
  %holds = trunc i8 %some to i1
  ret i1 %holds
}
"""


EACH = """
define internal void @each(ptr %what, ptr %stages, ptr %uniform, ptr %arenas, i64 %count) nounwind noinline {
  br label %loop
loop:
  %k = phi i64 [ 0, %0 ], [ %next, %loop ]
  %s = mul i64 %k, @@STAGE@@
  %stage = getelementptr i8, ptr %stages, i64 %s
  %a = mul i64 %k, @@ARENA@@
  %arena = getelementptr i8, ptr %arenas, i64 %a
  call void %what(ptr %stage, ptr %uniform, ptr %arena)
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
