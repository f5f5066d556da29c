"""Where Holdfast is not SQS. Each is said on the page; what is listed here needs no proof, and must not have one."""

KMS = "AccessDenied Disabled InvalidKeyUsage InvalidState NotFound OptInRequired Throttled".split()

NEVER_SENT = {
    "Error.InvalidAddress": "the address of a queue is its path; an unknown one is QueueDoesNotExist",
    "Error.InvalidIdFormat": "deprecated in SQS; a wrong handle is ReceiptHandleIsInvalid",
    "Error.InvalidSecurity": "whether plain HTTP is answered is decided by the address that is listened on",
    "Error.MessageNotInflight": "in the model of SQS, but AWS answers InvalidParameterValue, and so does Holdfast",
    **{f"Error.Kms{each}": "there is no KMS behind it" for each in KMS},
}

# Beside what is proven: what an attribute does not do.
NOTES = {
    "Attribute.KmsMasterKeyId": "kept and shown, not used: Holdfast encrypts with its own keys",
    "Attribute.KmsDataKeyReusePeriodSeconds": "kept and shown, not used",
    "Attribute.SqsManagedSseEnabled": "kept and shown; data on disk is encrypted either way",
    "Attribute.FifoThroughputLimit": "kept and shown; nothing is throttled unless the operator limits rates",
}

DIFFERENCES = (
    "The SDKs for .NET, Ruby, PHP and Rust are expected to work; no test tries them.",
    "There are no session tokens and no roles: a key belongs to a user. Of STS only GetCallerIdentity answers.",
    "KMS keys are named, not used (see the attributes).",
    "After DeleteQueue a queue is gone at once; AWS may answer requests for it for another minute.",
    "One host: the attributes of a queue are exact at once, and counts are exact rather than approximate.",
    "There are no SNS, EventBridge, Lambda or CloudWatch around it.",
)
