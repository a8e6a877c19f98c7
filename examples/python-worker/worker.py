"""A Bellwether worker in plain Python: claims turns, sends heartbeats, spends its budget, waits for a tool, delivers. See docs/guides/worker-api.md.

    BELLWETHER_URL=http://127.0.0.1:7717 BELLWETHER_KEY=bw_... python3 worker.py TARGET
"""
import json, os, sys, threading, time, urllib.error, urllib.request

URL, KEY = os.environ['BELLWETHER_URL'].rstrip('/') + '/api/v1', os.environ['BELLWETHER_KEY']
TARGET, WORKER = sys.argv[1], f'python-{os.getpid()}'


def post(path, body):
    """Returns the response, or None if another worker holds the turn. Retries while the server is down; the fence makes that safe."""
    while True:
        request = urllib.request.Request(URL + path, json.dumps(body).encode(), {'X-API-Key': KEY, 'Content-Type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 409:
                return None
            if error.code not in (429, 503):
                raise SystemExit(f'{path}: {error.read().decode()}')
        except OSError as error:
            print(f'{path}: {error}', file=sys.stderr)
        time.sleep(1)


def work(turn):
    fence, lost = {name: turn[name] for name in ('turn_epoch', 'lease_token')}, threading.Event()
    send = lambda what, **body: post(f"/turns/{turn['agent_turn_id']}/{what}", {**fence, **body})

    def beat():
        while not lost.wait(turn['beat_seconds']):
            send('beat', activity='thinking') or lost.set()

    threading.Thread(target=beat, daemon=True).start()
    try:
        task = ' '.join(card['content'].get('text', '') for card in turn['context'] if card['type'] == 'task.instruction')
        print(json.dumps({'turn': turn['agent_turn_id'], 'kind': turn['kind'], 'taken_over': turn['taken_over']}), flush=True)
        thought = {'reservation_id': f"thought-{len(turn['output'])}"}
        budget = send('reserve', tokens=500, **thought)  # the most that the model call may use
        if budget and budget['status'] != 'exceeded':
            send('steps', cards=[{'type': 'agent.thought', 'content': {'text': f'I am to {task}'}}])
            budget = send('commit', tokens=len(task), **thought)  # what it has used
        if budget and budget['exceeded_keys']:
            return send('deliver', status='failed', error='budget_exceeded', text=f'{task}: not finished within the budget')
        if task.startswith('wait') and not turn['taken_over'] and lost.wait(3600):  # pretends to think for an hour
            return
        if task.startswith('ask') and not turn['results']:
            send('suspend', calls=[{'tool_call_id': turn['agent_turn_id'] + '-1', 'tool_name': 'lookup', 'arguments': {'question': task}}])
        else:
            found = ', '.join(json.dumps(result['result']) for result in turn['results'])
            send('deliver', text=f'{task}: {found or "done"}')
    finally:
        lost.set()


while True:
    for claimed in post(f'/workers/{TARGET}/claim', {'max': 1, 'wait_seconds': 20, 'worker_id': WORKER})['turns']:
        work(claimed)
