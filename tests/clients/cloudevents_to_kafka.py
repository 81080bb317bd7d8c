"""Writes events as CloudEvents with the `cloudevents` package, in binary and structured mode, protobuf and JSON.

usage: cloudevents_to_kafka.py BROKERS TOPIC < LINES

Each line is {"mode": "binary" or "structured", "event": {…} or "protobuf": BASE64, "id": …, "type": …, "space": …}.
"""
import base64
import json
import sys

from cloudevents.core.bindings.kafka import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from confluent_kafka import Producer

brokers, topic = sys.argv[1:3]
producer = Producer({"bootstrap.servers": brokers, "partitioner": "murmur2_random", "enable.idempotence": True})
for line in sys.stdin:
    given = json.loads(line)
    is_json = "event" in given
    attributes = {
        "id": given["id"],
        "type": given["type"],
        "source": "urn:agent:reader",
        "specversion": "1.0",
        "datacontenttype": "application/json" if is_json else "application/protobuf",
        "partitionkey": given["space"],
    }
    data = given["event"] if is_json else base64.b64decode(given["protobuf"])
    write = to_binary if given["mode"] == "binary" else to_structured
    message = write(CloudEvent(attributes, data), JSONFormat())
    producer.produce(topic, key=message.key, value=message.value, headers=message.headers)
producer.flush(60)
