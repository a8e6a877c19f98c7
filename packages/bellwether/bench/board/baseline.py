"""The baseline of `npm run bench -- board`: the straightforward way, one line after the other, parse and reduce."""
import hashlib
import json
import sys
import time

LEADS_TO = {
    "task_created": "pending",
    "diag_task_created": "pending",
    "task_claimed": "claimed",
    "task_started": "in_progress",
    "task_review": "review",
    "task_done": "done",
    "task_blocked": "blocked",
    "task_failed": "failed",
    "task_reopened": "in_progress",
}
TRANSITIONS = {
    "pending": {"claimed", "blocked"},
    "claimed": {"in_progress", "done", "blocked"},
    "in_progress": {"review", "done", "blocked", "failed"},
    "review": {"done", "in_progress", "blocked"},
    "blocked": {"in_progress", "claimed"},
    "failed": {"in_progress"},
    "done": set(),
}
REQUIRED = ("eventId", "taskId", "type", "actor", "at", "payload")


def rebuild(path):
    tasks, seen, counted, problems, last_at = {}, set(), 0, 0, None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                problems += 1
                continue
            if any(key not in event for key in REQUIRED) or event["type"] not in LEADS_TO:
                problems += 1
                continue
            if event["eventId"] in seen:
                problems += 1
                continue
            task_id, status, payload = event["taskId"], LEADS_TO[event["type"]], event["payload"]
            task = tasks.get(task_id)
            if status == "pending":
                if task is not None:
                    problems += 1
                    continue
                tasks[task_id] = task = {"taskId": task_id, "createdAt": event["at"], "fields": {}}
            elif task is None or status not in TRANSITIONS[task["status"]]:
                problems += 1
                continue
            task["status"] = status
            task["updatedAt"] = last_at = event["at"]
            for key, value in payload.items():
                if key in ("title", "priority", "dependencies", "owner", "reason"):
                    task[key] = value
                elif key not in ("from", "to"):
                    task["fields"][key] = value
            seen.add(event["eventId"])
            counted += 1
    return tasks, counted, problems, last_at


started = time.perf_counter()
tasks, counted, problems, last_at = rebuild(sys.argv[1])
reduced = time.perf_counter() - started
digest = hashlib.sha256(json.dumps(tasks, sort_keys=True).encode()).hexdigest()
whole = time.perf_counter() - started
by_status = {}
for task in tasks.values():
    by_status[task["status"]] = by_status.get(task["status"], 0) + 1
print(json.dumps({"seconds": whole, "reduceSeconds": reduced, "events": counted, "problems": problems,
                  "tasks": len(tasks), "byStatus": by_status, "updatedAt": last_at, "hash": digest}))
