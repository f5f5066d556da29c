"""What can be refused, as one tree. Each error knows its name in both dialects, its HTTP status and whose fault it is.

HoldfastError
├── SqsError                 part of the SQS model
│   ├── QueueDoesNotExist … (28 shapes)
├── RequestError             answered by AWS everywhere, though the model does not name it
│   ├── InvalidParameterValue, MissingParameter
├── ServiceUnavailable       ours: retry, nothing was done (HTTP 503)
│   ├── Overloaded, NoRoom, NotPrimary, LaneDraining, Unsure
├── OutcomeUnknown           ours: it may have been done, or not; a retry may do it twice (HTTP 500)
└── CorruptLog               the disk lied; the host stops and names the range
"""

from typing import ClassVar


class HoldfastError(Exception):
    """Root of everything that is refused on purpose."""

    code: ClassVar[str] = "InternalFailure"  # suffix of the JSON dialect's __type
    query_code: ClassVar[str] = "InternalFailure"
    status: ClassVar[int] = 500
    fault: ClassVar[str] = "Receiver"  # Sender: the client's; Receiver: ours
    text: ClassVar[str] = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.text)

    @property
    def message(self) -> str:
        return str(self.args[0])


class SqsError(HoldfastError):
    status = 400
    fault = "Sender"

    def __init_subclass__(cls, query: str = "", status: int = 400) -> None:
        cls.code = cls.__name__
        cls.query_code = query or cls.__name__
        cls.status = status


_AWS = "AWS.SimpleQueueService."


class QueueDoesNotExist(SqsError, query=_AWS + "NonExistentQueue"):
    text = "The specified queue does not exist."


class QueueNameExists(SqsError, query="QueueAlreadyExists"):
    pass


class QueueDeletedRecently(SqsError, query=_AWS + "QueueDeletedRecently"):
    text = "You must wait 60 seconds after deleting a queue before you can create another with the same name."


class BatchEntryIdsNotDistinct(SqsError, query=_AWS + "BatchEntryIdsNotDistinct"):
    pass


class BatchRequestTooLong(SqsError, query=_AWS + "BatchRequestTooLong"):
    pass


class EmptyBatchRequest(SqsError, query=_AWS + "EmptyBatchRequest"):
    pass


class InvalidBatchEntryId(SqsError, query=_AWS + "InvalidBatchEntryId"):
    text = (
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
        "It can be at most 80 letters long."
    )


class TooManyEntriesInBatchRequest(SqsError, query=_AWS + "TooManyEntriesInBatchRequest"):
    pass


class MessageNotInflight(SqsError, query=_AWS + "MessageNotInflight"):
    pass


class UnsupportedOperation(SqsError, query=_AWS + "UnsupportedOperation"):
    pass


class PurgeQueueInProgress(SqsError, query=_AWS + "PurgeQueueInProgress", status=403):
    pass


class OverLimit(SqsError, status=403):
    pass


class ResourceNotFoundException(SqsError, status=404):
    pass


class ReceiptHandleIsInvalid(SqsError, status=404):
    pass


class InvalidAddress(SqsError, status=404):
    pass


class InvalidSecurity(SqsError, status=403):
    pass


class RequestThrottled(SqsError, status=403):
    pass


class KmsAccessDenied(SqsError, query="KMS.AccessDeniedException"):
    pass


class KmsDisabled(SqsError, query="KMS.DisabledException"):
    pass


class KmsInvalidKeyUsage(SqsError, query="KMS.InvalidKeyUsageException"):
    pass


class KmsNotFound(SqsError, query="KMS.NotFoundException"):
    pass


class KmsInvalidState(SqsError, query="KMS.InvalidStateException"):
    pass


class KmsThrottled(SqsError, query="KMS.ThrottlingException"):
    pass


class KmsOptInRequired(SqsError, query="KMS.OptInRequired", status=403):
    pass


class InvalidAttributeName(SqsError):
    pass


class InvalidAttributeValue(SqsError):
    pass


class InvalidMessageContents(SqsError):
    pass


class InvalidIdFormat(SqsError):
    pass


class RequestError(HoldfastError):
    status = 400
    fault = "Sender"


class InvalidParameterValue(RequestError):
    code = "InvalidParameterValueException"
    query_code = "InvalidParameterValue"


class MissingParameter(RequestError):
    code = "MissingRequiredParameterException"
    query_code = "MissingParameter"


class ServiceUnavailable(HoldfastError):
    """Nothing was done; the same request may succeed later."""

    code = "ServiceUnavailable"
    query_code = "ServiceUnavailable"
    status = 503


class Overloaded(ServiceUnavailable):
    text = "The host has more work than it can finish in time. Retry later."


class NoRoom(ServiceUnavailable):
    text = "The disk is full: new messages are refused, receiving and deleting go on. Free space or retry later."


class NotPrimary(ServiceUnavailable):
    """`host` leads it in `epoch`, as far as this one knows; "": it does not know."""

    text = "This host does not lead the shard of that queue."

    def __init__(self, message: str = "", *, host: str = "", epoch: int = 0) -> None:
        super().__init__(message)
        self.host = host
        self.epoch = epoch


class LaneDraining(ServiceUnavailable):
    text = "This part of the queue takes no new messages any more. Another one does."


class Unsure(ServiceUnavailable):
    text = "This host does not hear the other hosts of that queue and hands nothing out until it does. Retry later."


class OutcomeUnknown(HoldfastError):
    """The request was given to a host that did not answer in time."""

    code = "InternalFailure"
    query_code = "InternalFailure"
    text = "It is not known whether the request was carried out. Retry it."


class CorruptLog(HoldfastError):
    """Bytes that were durable once are damaged. Names file and range; the host must stop."""
