"""Open WebUI's own code for terminal servers, from its package, with this server.

Only the modules that talk to a terminal server are loaded. The others (database, models, settings) are replaced, because
they need some gigabytes of packages.
"""

import asyncio
import importlib.abc
import importlib.machinery
import json
import socket
import sys
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

WHEEL, BASE, TOKEN = sys.argv[1:4]

# Modules of the package that are loaded as they are, and the packages in which they are.
REAL = {
    'open_webui.routers.terminals',
    'open_webui.utils.chat_id',
    'open_webui.utils.headers',
    'open_webui.utils.terminals',
    'open_webui.utils.tools',
}
PACKAGES = {'open_webui', 'open_webui.routers', 'open_webui.utils'}

# Libraries of which nothing is used.
ABSENT = {'langchain_core', 'yaml'}

# One connection as users enter it, and one that Open WebUI treats as an orchestrator.
URL = f'{BASE}/open-terminal'
PLAIN = {'id': 'plain', 'name': 'Sandboxes', 'url': URL, 'key': TOKEN, 'auth_type': 'bearer'}
PER_CHAT = PLAIN | {
    'id': 'per-chat',
    'server_type': 'orchestrator',
    'config': {'contexts': {'chat': {'context_id': 'chat_id'}}},
}
SETTINGS = {'terminal_server.connections': [PLAIN, PER_CHAT]}

USERS = {'session of ann': SimpleNamespace(id='ann'), 'session of bob': SimpleNamespace(id='bob')}


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        root = name.split('.')[0]
        if name in REAL or (root != 'open_webui' and root not in ABSENT):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        if spec.name in PACKAGES:
            module = ModuleType(spec.name)
            module.__path__ = [f'{WHEEL}/{spec.name.replace(".", "/")}']
            return module
        module = MagicMock(name=spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def replace(module, **values):
    module = importlib.import_module(module)
    for name, value in values.items():
        setattr(module, name, value)


async def setting(name, default=None):
    return SETTINGS.get(name, default)


async def always(*_, **__):
    return True


async def nothing(*_, **__):
    return []


async def user_of_token(token, *_):
    return USERS.get(token)


def user_of_request():
    raise AssertionError('it is overridden')


def load():
    sys.meta_path.insert(0, Replaced())
    replace(
        'open_webui.env',
        ENABLE_TOOL_SERVERS=True,
        AIOHTTP_CLIENT_SESSION_SSL=False,
        AIOHTTP_CLIENT_SESSION_TOOL_SERVER_SSL=False,
        AIOHTTP_CLIENT_TIMEOUT=60,
        AIOHTTP_CLIENT_TIMEOUT_TOOL_SERVER=60,
        AIOHTTP_CLIENT_TIMEOUT_TOOL_SERVER_DATA=60,
        AIOHTTP_CLIENT_ALLOW_REDIRECTS=False,
    )
    replace('open_webui.config', TERMINAL_PROXY_HEADERS={})
    replace('open_webui.models.config', Config=SimpleNamespace(get=setting))
    replace('open_webui.models.groups', Groups=SimpleNamespace(get_groups_by_member_id=nothing))
    replace('open_webui.models.users', UserModel=SimpleNamespace)
    replace('open_webui.utils.access_control', has_connection_access=always)
    replace('open_webui.utils.auth', get_verified_user=user_of_request, get_verified_user_by_token=user_of_token)
    replace('open_webui.utils.json_codec', JSONCodec=json)
    replace('open_webui.events', publish_event=nothing)


async def use_tools(tools):
    """What the model calls."""
    request = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(redis=None)), cookies={})

    async def tools_of(user, chat, terminal='plain'):
        extra = {'__metadata__': {'chat_id': chat, 'terminal_id': terminal}}
        found, prompt = await tools.get_terminal_tools(request, terminal, SimpleNamespace(id=user), extra)
        assert 'sandbox' in prompt, prompt
        return found

    ann = await tools_of('ann', '1')
    assert list(ann) == [
        'run_command', 'list_processes', 'get_process_status', 'send_process_input', 'kill_process', 'list_files',
        'read_file', 'display_file', 'write_file', 'replace_file_content', 'grep_search', 'glob_search',
    ], list(ann)
    assert '/vercel/sandbox/workspace' in ann['run_command']['spec']['description']
    assert ann['run_command']['spec']['parameters']['required'] == ['command']

    async def call(of, tool, **arguments):
        result, headers = await of[tool]['callable'](**arguments)
        assert headers is not None, f'{tool} {arguments}: {result}'
        return result

    await call(ann, 'write_file', path='src/a.py', content='print("one")\n')
    ran = await call(ann, 'run_command', command='python3 src/a.py; exit 3', wait=30, tail=10)
    assert (ran['status'], ran['exit_code'], ran['output']) == ('done', 3, [{'type': 'stdout', 'data': 'one\n'}]), ran
    replacement = {'target': 'one', 'replacement': 'two'}
    await call(ann, 'replace_file_content', path='src/a.py', replacements=[replacement])
    read = await call(ann, 'read_file', path='src/a.py', start_line=1)
    assert read['content'] == 'print("two")\n', read
    assert (await call(ann, 'grep_search', query='t.o', include=['*.py', '*.rs']))['matches'][0]['line'] == 1
    assert (await call(ann, 'glob_search', pattern='*.py', type='file'))['matches'][0]['path'] == 'src/a.py'
    assert (await call(ann, 'list_files'))['entries'][0]['name'] == 'src'
    assert (await call(ann, 'display_file', path='src/a.py'))['exists'] is True
    started = await call(ann, 'run_command', command='read -r line; echo "$line"', wait='')
    await call(ann, 'send_process_input', process_id=started['id'], input='hello\\n')
    ended = await call(ann, 'get_process_status', process_id=started['id'], wait=30, offset=0)
    assert ended['output'][0]['data'] == 'hello\n', ended
    sleeper = await call(ann, 'run_command', command='sleep 60')
    assert [found['id'] for found in await call(ann, 'list_processes')][0] == sleeper['id']
    assert (await call(ann, 'kill_process', process_id=sleeper['id'], force=True))['status'] == 'killed'
    # An image is shown to the model.
    pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    await call(ann, 'run_command', command=f'base64 -d <<<{pixel} >pixel.png', wait=30)
    assert (await call(ann, 'read_file', path='pixel.png')) == f'data:image/png;base64,{pixel}'

    # Each user and each chat has a sandbox of its own, whichever header names the chat.
    for stranger in [await tools_of('bob', '1'), await tools_of('ann', '2')]:
        assert (await call(stranger, 'list_files'))['entries'] == []
    same = await tools_of('ann', '1', 'per-chat')
    assert (await call(same, 'read_file', path='src/a.py'))['content'] == 'print("two")\n'
    # Without a chat, the call fails with an explanation for the model.
    result, headers = await (await tools_of('ann', None))['run_command']['callable'](command='id')
    assert headers is None and 'X-Session-Id' in result['error'], result


async def use_files(session, base):
    """What the page calls through Open WebUI's proxy."""
    headers = {'Authorization': 'Bearer session of ann', 'X-Session-Id': '1'}

    async def get(path, **options):
        async with session.get(f'{base}{path}', headers=headers, **options) as response:
            assert response.status == 200, f'{path}: {response.status} {await response.text()}'
            return response.headers, await response.read()

    async def post(path, **options):
        async with session.post(f'{base}{path}', headers=headers, **options) as response:
            assert response.status == 200, f'{path}: {response.status} {await response.text()}'
            return await response.read()

    home = json.loads((await get('/files/cwd'))[1])['home']
    import aiohttp

    # As browsers write the name.
    form = aiohttp.FormData(quote_fields=False)
    content = bytes(range(256)) * 8192
    form.add_field('file', content, filename='all bytes.bin')
    stored = json.loads(await post('/files/upload', params={'directory': home}, data=form))
    assert stored == {'path': f'{home}/all bytes.bin', 'size': len(content)}, stored
    assert (await get('/files/view', params={'path': stored['path']}))[1] == content
    archive = await post('/files/archive', json={'paths': [f'{home}/src', stored['path']]})
    import io
    import zipfile

    names = sorted(zipfile.ZipFile(io.BytesIO(archive)).namelist())
    assert [name for name in names if not name.endswith('/')] == ['all bytes.bin', 'src/a.py'], names
    assert zipfile.ZipFile(io.BytesIO(archive)).testzip() is None

    await post('/files/write', json={'path': 'page.html', 'content': '<script src="a.js"></script>'})
    page, _ = await get(f'/files/serve{home}/page.html')
    assert page['content-security-policy'] == 'sandbox allow-scripts', page
    server = 'python3 -m http.server 8123 --bind 127.0.0.1'
    await post('/execute', json={'command': f'exec {server}'})
    for _ in range(200):
        ports = json.loads((await get('/ports'))[1])['ports']
        if any(port['port'] == 8123 for port in ports):
            break
        await asyncio.sleep(0.05)
    page, body = await get('/chats/1/proxy/8123/page.html')
    assert body == b'<script src="a.js"></script>', body
    assert page['content-security-policy'] == 'sandbox allow-scripts', page


async def use_terminal(session, base):
    headers = {'Authorization': 'Bearer session of ann', 'X-Session-Id': '1'}
    async with session.post(f'{base}/api/terminals', headers=headers) as response:
        terminal = (await response.json())['id']
    socket_url = f'{base.replace("http", "ws", 1)}/api/terminals/{terminal}'

    async def attach(token):
        opened = await session.ws_connect(socket_url)
        await opened.send_str(json.dumps({'type': 'auth', 'token': token, 'chat_id': '1'}))
        return opened

    opened = await attach('session of ann')
    await opened.send_str(json.dumps({'type': 'resize', 'cols': 101, 'rows': 31}))
    await opened.send_bytes(b'stty size; cat page.html\r')
    shown = b''
    while b'31 101\r\n<script' not in shown:
        message = await opened.receive(timeout=30)
        assert isinstance(message.data, bytes), f'{message} after {shown}'
        shown += message.data
    await opened.close()
    # Another user of Open WebUI cannot attach to it.
    stranger = await attach('session of bob')
    message = await stranger.receive(timeout=30)
    assert not isinstance(message.data, (bytes, str)), message
    async with session.delete(f'{base}/api/terminals/{terminal}', headers=headers) as response:
        assert await response.json() == {'status': 'deleted'}, response.status


async def main():
    load()
    proxy = importlib.import_module('open_webui.routers.terminals')
    tools = importlib.import_module('open_webui.utils.tools')
    import aiohttp
    import fastapi
    import uvicorn

    def user(request: fastapi.Request):
        scheme, _, token = request.headers['authorization'].partition(' ')
        request.state.token = SimpleNamespace(credentials=token)
        return USERS[token]

    app = fastapi.FastAPI()
    app.include_router(proxy.router, prefix='/terminals')
    app.dependency_overrides[user_of_request] = user
    app.state.redis = None
    listener = socket.create_server(('127.0.0.1', 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level='warning'))
    serving = asyncio.create_task(server.serve([listener]))
    await use_tools(tools)
    base = f'http://127.0.0.1:{listener.getsockname()[1]}/terminals/plain'
    async with aiohttp.ClientSession() as session:
        await use_files(session, base)
        await use_terminal(session, base)
    server.should_exit = True
    await serving
    print('as published')


asyncio.run(main())
