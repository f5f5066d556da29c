"""What the small structs of the core are made of: one base for each way of life.

    Value    never changes and refers to no container that could refer back: the garbage collector need not see it
    Fact     never changes
    Cell     changes, and the collector need not see it
    Form     changes

The options stand here and not at each class because mypyc drops the keywords of a class that it compiles, and a base
hands its options on. `frozen` is repeated at a subclass for type checkers.
"""

import msgspec


class Value(msgspec.Struct, frozen=True, gc=False):
    pass


class Fact(msgspec.Struct, frozen=True):
    pass


class Cell(msgspec.Struct, gc=False):
    pass


class Form(msgspec.Struct):
    pass
