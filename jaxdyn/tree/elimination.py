"""The elimination behind ABA and its constrained relatives, by two rules: one for joints, one for multipliers of rows.

The matrix is that of accelerations and multipliers, [M Jᵀ; J −R]. It is quasi-definite: it can be eliminated in any
order without pivoting, provided that the compliance R is positive or the rows have become independent. A body i keeps
an articulated inertia H_ii, blocks H_ji to its neighbours j (bodies that constraints, or eliminations before, have tied
to it), and rows K_ri of the constraints that ride there, i.e. whose coefficients pass from body to parent. Rows keep
blocks L_rs among each other.

A joint is eliminated column by column (`articulated.py`); after the last column the body is substituted by its parent.
Each column is a rank-one step, never the inverse of a small matrix: thin rods have spin inertias of 1e-6 kg m², and an
explicit 3x3 inverse loses all digits there.

Eliminating a multiplier (`multipliers.py`; lcaba_proxbbo 51 and 52, one row at a time; at the base
popov_vereshchagin, Alg. 1, lines 13 and 14) makes these updates, with l_s = L_sr / L_rr: H_ab += K_raᵀ K_rb / L_rr,
K_sa −= l_s K_ra, L_st −= l_s L_rt, b_s −= l_s b_r and g_a −= K_raᵀ b_r / L_rr.

Rows that are kept ride on and are never eliminated: after all bodies are eliminated, L is J M⁻¹ Jᵀ, the Delassus matrix
(popov_vereshchagin, Alg. 2, PV-OSIM, for constraints on any number of bodies).

The velocities of a cluster are eliminated like rows, whose pivot has the other sign (`driven.py`).

Penalties μ KᵀK instead of riding rows (LCABA) are the same as eliminating the multipliers before anything else.

`jaxdyn.engine.steps` explains steps, tables and cells.
"""

from collections.abc import Callable
from typing import Any

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from . import articulated, driven, gyrostats, multipliers, panels, parties
from . import columns as co
from .cells import Cells
from .order import Joint, Multipliers, Order
from .plan import Plan
from .sweep import of_parent, place_of, q_of, refs, v_of
from .topology import Topology

#: the fields that rows write while they ride
CARRIED = "K", "L", "R"


def _penalty(K, weights):
    """Return Σ_r w_r K_rᵀ K_r as inertias of the bodies, and as ties by pair of bodies."""
    own = tuple(co.sum_of(co.symmetric_product, weights, k) for k in K)
    pairs = [(i, j) for i in range(len(K)) for j in range(i + 1, len(K))]
    return own, tuple(co.sum_of(co.tie_product, weights, K[j], K[i]) for i, j in pairs)


class Elimination(Cells):
    """Tables for the elimination of a tree in an order: of the factor, and of both sweeps of a solve.

    `penalised` are the constraints that tie bodies by penalties; `rule` (`panels.py`) gives 1 / D of riding rows. If
    `apart`, constraints whose rows are kept have no blocks L with each other, only their own. If `later`, and no
    multipliers are eliminated, rows ride after all bodies are eliminated, in tables of their own: `along`, and
    `pushed` and `pulled` of a solve; `along_after` is `along` and `pushed` in one.
    """

    def __init__(
        self,
        topology: Topology,
        plan: Plan,
        order: Order,
        penalised: tuple[int, ...],
        rule: Callable,
        apart: bool,
        later: bool,
    ):
        super().__init__(topology, plan)
        plan, self.rule = self.plan, rule
        gone = {c for x in order if isinstance(x, Multipliers) for c in x.riders}
        self.riding = {c for x in order if isinstance(x, Joint) for c in x.riders}
        self.apart = {c for c in self.riding - gone if c >= 0} if apart else set()
        #: whether rows ride in tables of their own
        self.later = later and bool(self.riding) and not penalised
        self.later &= all(isinstance(x, Joint) and x.drives is None for x in order)
        self.parties = {x: parties.parties_of(self, x) for x in order}
        when = {x.body: k for k, x in enumerate(order) if isinstance(x, Joint)}
        #: True if some rows ride that are never eliminated, or if some bodies are never eliminated
        self.keeps = bool(self.riding - gone) or len(when) < topology.nb
        rows = [self.penalty(c, sorted(plan.bodies(c), key=when.__getitem__)) for c in penalised]
        along = [] if self.later else rows
        for x in order:
            if not self.turns_with_joint(x):
                rows.append(self.of(x, self.joint, self.driven, self.multipliers))
                along += map(self.wrote, self.party(parties.along, x))
        sizes = {name: c.size for name, c in self.cells.items()}
        self.factor = Table(rows, sizes | {"H": topology.nb, "U": topology.nv, "whole": plan.whole})
        ups: list[Row] = []
        pushed = [] if self.later else ups
        for x in order:
            ups.append(self.of(x, self.push, self.push_driven, self.forwards))
            pushed += self.party(parties.pushed, x)
        solved = {"u": topology.nv, "force": topology.nb, "b": plan.whole, "w": sizes["Linv"]}
        self.up = Table(ups, solved | ({"tau": topology.nv} if topology.geared else {}))  # what rotors add
        downs: list[Row] = []
        pulled = [] if self.later else downs
        for x in reversed(order):
            pulled += self.party(parties.pulled, x)
            downs.append(self.of(x, self.pull, self.pull_driven, self.backwards))
        load = {"load": topology.nv} if any(self.parties.values()) else {}
        self.down = Table(downs, {"x": topology.nv, "a": topology.nb, "nu": plan.whole} | ({} if self.later else load))
        if self.later:
            carried = {name: sizes[name] for name in CARRIED} | {"whole": plan.whole}
            self.along, self.pushed = Table(along, carried), Table(pushed, {"b": plan.whole})
            self.pulled = Table(pulled, load)
            after = [row for x in order for row in parties.along(self, x, self.parties[x], solving=True)]
            self.along_after = Table(after, carried | {"b": plan.whole})

    def turns_with_joint(self, x) -> bool:
        """Return whether `x` is a rotor that is eliminated with the joint of another body."""
        return isinstance(x, Joint) and x.body in self.topology.geared

    def of(self, x, joint, driven, multipliers) -> Row:
        """Return the row of the table for one elimination: of a joint, a body of a cluster, or multipliers."""
        if isinstance(x, Multipliers):
            return multipliers(x)
        return joint(x) if x.drives is None else driven(x)

    def party(self, rows: Callable, x) -> list[Row]:
        """Return the rows of the parties of an elimination, see `parties.py`."""
        return list(rows(self, x, self.parties[x])) if self.parties[x] else []

    # the factor

    def penalty(self, c: int, bodies: list[int]) -> Row:
        # others are added to the coefficients of rows that also ride: read the original ones from cells of their own
        name = "own" if c in self.riding else "K"
        reads = tuple(self.K(c, b)._replace(name=name) for b in bodies), self.plan.row("weight", c)
        return self.wrote(Row(Step(_penalty), reads, (refs("H", bodies), self.ties(bodies))))

    def joint(self, x: Joint) -> Row:
        b, p, near, riders = x.body, x.parent, x.neighbours, self.with_joint(x)
        kind = self.topology.kinds[b]
        reads = (
            Ref("inertia", b),
            self.inertia(b),
            Ref("joint", b),
            q_of(self.topology, b),
            v_of(self.topology, b, "armature"),
            Ref("pose", b),
            tuple(self.tie(b, j) for j in near),
            tuple(self.K(c, b) for c in riders),
            tuple(
                (Ref("spin", a), v_of(self.topology, a, "armature"), self.ratios(a))
                for a, leader in self.topology.geared.items()
                if leader == b
            ),
        )
        pairs = self.pairs(riders)
        writes = (
            (v_of(self.topology, b, "U"), *self.sides(x)),
            None if x.root else Ref("H", p),
            refs("H", near),
            self.ties(near),
            *self.above(x, riders),
            tuple(self.K(c, j) for c in riders for j in near),
            tuple(self.L(riders[k], riders[l]) for k, l in pairs),
            tuple(self.plan.row("whole", c) for c in riders),
        )
        step = Step(articulated.eliminate, (kind, x.tied, x.before, x.root, pairs))
        return self.wrote(Row(step, reads, writes))

    def above(self, x: Joint, riders) -> tuple[tuple[Ref, ...], tuple[Ref, ...]]:
        """Return the cells of what a body passes to its parent: ties with the neighbours, and rows."""
        p, first = x.parent, set(x.neighbours[: x.before])
        if x.root:
            return (), ()
        others = [j for j in x.neighbours if j != p]
        ties = tuple(self.tie(j, p) if j in first else self.tie(p, j) for j in others)
        return ties, tuple(self.K(c, p) for c in riders)

    def driven(self, x: Joint) -> Row:
        b, p, near, cluster = x.body, x.parent, x.neighbours, x.cluster
        if b in self.topology.gyrostats:
            reads = Ref("spin", b), v_of(self.topology, b, "armature"), self.ratios(b)
            step = Step(gyrostats.substitute, self.moves(x)[1:])
            return self.wrote(Row(step, reads, (self.K(cluster, p), self.L(cluster, cluster))))
        riders = tuple(c for c in x.riders if c != cluster)
        par, q, pose = place_of(self.topology, b)
        reads = (
            Ref("inertia", b),
            self.inertia(b),
            par,
            q,
            v_of(self.topology, b, "armature"),
            pose,
            self.ratios(b),
            tuple(self.tie(b, j) for j in near),
            tuple(self.K(c, b) for c in riders),
            self.K(cluster, b) if cluster in x.riders else None,
        )
        ties, rows = self.above(x, (*riders, cluster))
        writes = (
            None if x.root else Ref("H", p),
            ties,
            rows,
            tuple(self.K(cluster, j) for j in near),
            tuple(self.L(cluster, c) for c in riders),
            self.L(cluster, cluster),
        )
        static = *self.moves(x), tuple(c < cluster for c in riders), x.tied, x.before, x.root
        return self.wrote(Row(Step(driven.substitute, static), reads, writes))

    def moves(self, x: Joint) -> tuple[Any, tuple[int | None, ...], int]:
        """Return the kind of a cluster's body, for each of its velocities the column that it is (None for dependent
        ones), and the number of columns."""
        cluster, at = self.topology.clusters[-1 - x.cluster], self.topology.v_slice(x.body)
        places = {v: k for k, v in enumerate(cluster.independent)}
        moves = tuple(places.get(v) for v in range(at.start, at.stop))
        return self.topology.kinds[x.body], moves, len(places)

    def ratios(self, b: int) -> tuple[Ref, ...]:
        """Return the cells of the coefficients of a body's dependent velocities."""
        at = self.topology.v_slice(b)
        return tuple(Ref("G", *self.topology.ratios[v]) for v in range(at.start, at.stop) if v in self.topology.ratios)

    def with_joint(self, x: Joint) -> tuple[int, ...]:
        """Return the riders that the step of a joint takes along."""
        return () if self.parties[x] else x.riders

    def sides(self, x: Joint) -> tuple[Ref | None, Ref | None]:
        """Return the cells of V and R of a joint."""
        nv = self.topology.kinds[x.body].nv
        return (
            self.cells["V"](x.body, nv * len(x.neighbours)),
            self.cells["R"](x.body, nv * sum(self.counts(self.with_joint(x)))),
        )

    def multipliers(self, x: Multipliers) -> Row:
        every = (*x.riders, *x.others)
        pairs = [(i, j) for i in range(len(x.riders)) for j in range(i, len(every))]
        blocks = {pair: self.L(every[pair[0]], every[pair[1]]) for pair in pairs}
        blocks = {pair: ref for pair, ref in blocks.items() if self.has(ref)}
        turned = tuple(pair for pair in blocks if every[pair[0]] > every[pair[1]])
        acting, others = list(zip(*x.acting, strict=True)) if x.bodies else [], self.pairs(x.others)
        reads = (
            tuple(
                tuple(self.K(c, b) if acts else None for c, acts in zip(x.riders, at, strict=True))
                for b, at in zip(x.bodies, acting, strict=True)
            ),
            tuple(blocks.values()),
            tuple(self.plan.row("compliance", c) for c in x.riders) if x.riders[0] >= 0 else None,
            tuple(row if self.has(row) else None for row in (self.plan.row("whole", c) for c in x.riders)),
        )
        writes = (
            self.parts(x),
            refs("H", x.bodies),
            self.ties(x.bodies),
            tuple(tuple(self.K(d, b) for d in x.others) for b in x.bodies),
            tuple(self.L(x.others[k], x.others[l]) for k, l in others),
            tuple(self.plan.row("whole", c) for c in x.others),
        )
        rule = panels.exact if x.riders[0] < 0 else self.rule
        static = rule, self.counts(x.riders), self.counts(x.others), tuple(blocks), turned, others
        return self.wrote(Row(Step(multipliers.eliminate, static), reads, writes))

    def parts(self, x: Multipliers) -> tuple[Ref | None, Ref | None, tuple[Ref, ...]]:
        """Return the cells of 1 / L, of the columns below the diagonal, and of the coefficients by body."""
        e, o = sum(self.counts(x.riders)), sum(self.counts(x.others))
        return (
            self.cells["Linv"](x.riders, e),
            self.cells["below"](x.riders, e * (e + o) - e * (e + 1) // 2),
            tuple(self.cells["taken"]((x.riders, b), e) for b in x.bodies),
        )

    # the solve

    def factors(self, x: Joint) -> tuple[Ref, Ref | None, Ref | None]:
        return v_of(self.topology, x.body, "U"), *self.sides(x)

    def push(self, x: Joint) -> Row:
        b, n, riders = x.body, len(x.neighbours), self.with_joint(x)
        if self.turns_with_joint(x):
            reads = Ref("spin", b), self.ratios(b), Ref("force", b)
            to = v_of(self.topology, self.topology.geared[b], "tau")
            return Row(Step(gyrostats.push, ((None,), 1)), reads, to)
        reads = *place_of(self.topology, b), v_of(self.topology, b, "tau"), Ref("force", b), *self.factors(x)
        to = None if x.root else Ref("force", x.parent)
        rows = tuple(self.plan.row("b", c) for c in riders)
        static = self.topology.kinds[b], x.root, n, self.counts(riders)
        return Row(
            Step(articulated.push, static),
            reads,
            (v_of(self.topology, b, "u"), to, refs("force", x.neighbours), rows),
        )

    def pull(self, x: Joint) -> Row:
        b, riders = x.body, self.with_joint(x)
        if self.turns_with_joint(x):
            reads = Ref("spin", b), self.ratios(b), v_of(self.topology, self.topology.geared[b], "x")
            return Row(Step(gyrostats.pull, ((None,), 1)), reads, Ref("a", b))
        nu = tuple(self.plan.row("nu", c) for c in riders)
        load = v_of(self.topology, b, "load") if self.parties[x] else None
        above = of_parent("a", x.parent), refs("a", x.neighbours), nu, load
        reads = *place_of(self.topology, b), v_of(self.topology, b, "u"), *self.factors(x), *above
        static = self.topology.kinds[b], self.counts(riders)
        return Row(Step(articulated.pull, static), reads, (v_of(self.topology, b, "x"), Ref("a", b)))

    def push_driven(self, x: Joint) -> Row:
        if x.body in self.topology.gyrostats:
            reads = Ref("spin", x.body), self.ratios(x.body), Ref("force", x.body)
            return Row(Step(gyrostats.push, self.moves(x)[1:]), reads, self.plan.row("b", x.cluster))
        reads = *place_of(self.topology, x.body), self.ratios(x.body), Ref("force", x.body)
        to = None if x.root else Ref("force", x.parent)
        return Row(Step(driven.push, (*self.moves(x), x.root)), reads, (to, self.plan.row("b", x.cluster)))

    def pull_driven(self, x: Joint) -> Row:
        if x.body in self.topology.gyrostats:
            reads = Ref("spin", x.body), self.ratios(x.body), self.plan.row("nu", x.drives)
            return Row(Step(gyrostats.pull, self.moves(x)[1:]), reads, Ref("a", x.body))
        reads = (
            *place_of(self.topology, x.body),
            self.ratios(x.body),
            of_parent("a", x.parent),
            self.plan.row("nu", x.drives),
        )
        return Row(Step(driven.pull, self.moves(x)), reads, Ref("a", x.body))

    def forwards(self, x: Multipliers) -> Row:
        b = tuple(self.plan.row("b", c) for c in x.riders)
        others = tuple(self.plan.row("b", c) for c in x.others)
        writes = self.own(x), refs("force", x.bodies), others
        step = Step(multipliers.forwards, (self.counts(x.riders), self.counts(x.others)))
        return Row(step, (b, *self.parts(x)), writes)

    def own(self, x: Multipliers) -> Ref:
        """Return the cells of w."""
        return self.cells["Linv"](x.riders, sum(self.counts(x.riders)))._replace(name="w")

    def backwards(self, x: Multipliers) -> Row:
        others = tuple(self.plan.row("nu", c) for c in x.others)
        reads = self.own(x), *self.parts(x), refs("a", x.bodies), others
        step = Step(multipliers.backwards, (self.counts(x.riders),))
        return Row(step, reads, tuple(self.plan.row("nu", c) for c in x.riders))


@tables
def elimination_of(
    topology: Topology,
    plan: Plan,
    order: Order,
    penalised: tuple[int, ...],
    rule: Callable = panels.damped,
    apart: bool = False,
    later: bool = False,
) -> Elimination:
    """Return the tables of an elimination; equal ones are one object."""
    return Elimination(topology, plan, order, penalised, rule, apart, later)
