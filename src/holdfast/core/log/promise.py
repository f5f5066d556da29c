"""The promise of a host to a shard: no epoch below this one is accepted any more; and whose promise it is.

It is durable before anything is answered in its name; this one small write is what fences an old primary.
"""

import struct
from typing import Final

import google_crc32c

from holdfast.core.errors import CorruptLog
from holdfast.core.types import Epoch

# promise: magic 8 bytes | version u32 | epoch u32 | identity length u32 | identity | CRC-32C of all before
PROMISE: Final = "promise"
MAGIC: Final = b"HFPROMIS"
VERSION: Final = 1
_HEAD = struct.Struct("<8sIII")
_CRC = struct.Struct("<I")


def encode_promise(epoch: Epoch, identity: bytes) -> bytes:
    data = _HEAD.pack(MAGIC, VERSION, epoch, len(identity)) + identity
    return data + _CRC.pack(google_crc32c.value(data))


def decode_promise(data: bytes) -> tuple[Epoch, bytes]:
    if len(data) < _HEAD.size + _CRC.size or google_crc32c.value(data[:-4]) != _CRC.unpack(data[-4:])[0]:
        raise CorruptLog("the promise file is damaged: which epochs were promised is unknown")
    magic, version, epoch, length = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION or len(data) != _HEAD.size + length + _CRC.size:
        raise CorruptLog(f"the promise file is not of version {VERSION}")
    return epoch, data[_HEAD.size : -4]
