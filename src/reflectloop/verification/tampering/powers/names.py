"""Python names that give a power, by their full name; data only."""

from __future__ import annotations

from functools import cache

from reflectloop.verification.tools.record import words

# By power: full names. A name also stands for everything below it, so `os.environ` for `os.environ.get`.
_NAMES: dict[str, str] = {
    "frames": """
        sys._getframe sys._current_frames sys._current_exceptions sys._getframemodulename sys._getframe
        inspect.stack inspect.currentframe inspect.getouterframes inspect.getinnerframes inspect.trace
        inspect.getframeinfo traceback.extract_stack traceback.walk_stack traceback.format_stack
        traceback.print_stack traceback.StackSummary.extract logging.Logger.findCaller logging.currentframe
        faulthandler.dump_traceback tracemalloc.get_object_traceback inspect.getargvalues
    """,
    "watchers": """
        sys.__stdout__ sys.__stderr__ sys.__stdin__
        sys.gettrace sys.getprofile threading.gettrace threading.getprofile faulthandler.is_enabled
        atexit._ncallbacks atexit._run_exitfuncs atexit._clear warnings.filters warnings.showwarning
        warnings._showwarnmsg_impl logging._handlers logging._handlerList gc.callbacks
    """,
    "modules": """
        __main__ sys.modules importlib.reload importlib.invalidate_caches pkgutil.walk_packages
        pkgutil.iter_modules sys.path_importer_cache pkg_resources.working_set modulefinder
    """,
    "objects": """
        gc.get_objects gc.get_referrers gc.get_referents gc.freeze weakref._weakrefset inspect.getclosurevars
        inspect.getmembers_static
    """,
    "dynamic": """
        builtins.exec builtins.eval builtins.compile marshal.load marshal.loads pickle.load pickle.loads
        pickle.Unpickler _pickle cPickle shelve.open dill cloudpickle joblib.load types.CodeType
        types.FunctionType code.InteractiveInterpreter code.InteractiveConsole code.interact codeop runpy imp
        zipimport importlib.machinery.SourceFileLoader importlib.machinery.SourcelessFileLoader
        importlib.machinery.ExtensionFileLoader importlib.machinery.ModuleSpec
        importlib.util.spec_from_file_location importlib.util.module_from_spec importlib.util.spec_from_loader
        importlib._bootstrap importlib._bootstrap_external importlib.util.source_from_cache bdb pdb.run
        pdb.runeval timeit.timeit timeit.Timer trace.Trace profile.run cProfile.run _frozen_importlib
        _frozen_importlib_external numba.jit pydoc.locate pydoc.resolve pkgutil.resolve_name typing.ForwardRef
        typing._eval_type importlib.metadata.EntryPoint concurrent.interpreters _xxsubinterpreters _interpreters
        tkinter.Tcl __loader__ yaml.unsafe_load yaml.UnsafeLoader yaml.FullLoader lib2to3
    """,
    "native": "ctypes _ctypes cffi _cffi_backend numpy.ctypeslib cython pyximport distutils.ccompiler",
    "hooks": """
        sys.settrace sys.setprofile sys.addaudithook sys.meta_path sys.path_hooks sys.excepthook
        sys.unraisablehook sys.displayhook sys.breakpointhook sys.monitoring sys.set_asyncgen_hooks
        sys.set_coroutine_origin_tracking_depth sys.setswitchinterval threading.settrace threading.setprofile
        threading.excepthook threading.settrace_all_threads threading.setprofile_all_threads codecs.register
        faulthandler._sigsegv faulthandler._fatal_error sys.activate_stack_trampoline sys.remote_exec
        sys.call_tracing
    """,
    "process": """
        os._exit os.abort os.kill os.killpg os.fork os.forkpty os.posix_spawn os.posix_spawnp os.execv os.execve
        os.execl os.execle os.execlp os.execlpe os.execvp os.execvpe pty.fork pty.spawn signal.raise_signal
        signal.pthread_kill resource.setrlimit os.dup2 os.closerange faulthandler._read_null
        _thread.interrupt_main multiprocessing.process.active_children _posixsubprocess
    """,
    "processes": "os.getppid sys.orig_argv psutil os.getpgid os.getsid os.tcgetpgrp os.ctermid",
    "test-tools": """
        pytest _pytest unittest nose nose2 pluggy mock hypothesis xdist testtools ward behave testfixtures
        py.test pytest_mock dirty_equals hamcrest callee freezegun time_machine responses vcr requests_mock
        expects django.test twisted.trial asynctest zope.testing zope.testrunner
    """,
    "import-path": """
        sys.path.insert sys.path.append sys.path.extend sys.path.remove sys.path.pop sys.path.clear
        sys.path.reverse site.addsitedir site.main sys.path.__setitem__ sys.path.sort
    """,
    "subprocess": """
        subprocess.run subprocess.Popen subprocess.call subprocess.check_call subprocess.check_output
        subprocess.getoutput subprocess.getstatusoutput os.system os.popen os.spawnv os.spawnve os.spawnl
        os.spawnle os.spawnlp os.spawnvp os.spawnvpe os.startfile asyncio.create_subprocess_exec
        asyncio.create_subprocess_shell multiprocessing.Process multiprocessing.Pool multiprocessing.get_context
        pexpect sh plumbum concurrent.futures.ProcessPoolExecutor asyncio.subprocess.create_subprocess_exec
    """,
    "network": """
        socket.socket socket.create_connection socket.create_server socket.socketpair socket.getaddrinfo
        socket.gethostbyname http.client.HTTPConnection http.client.HTTPSConnection http.server urllib.request
        urllib2 urllib3 requests httpx aiohttp ftplib smtplib imaplib poplib telnetlib xmlrpc.client
        xmlrpc.server socketserver asyncio.open_connection asyncio.start_server websockets paramiko
        ssl.wrap_socket
    """,
    "write": """
        os.remove os.unlink os.rename os.replace os.rmdir os.removedirs os.mkdir os.makedirs os.symlink os.link
        os.truncate os.chmod os.chown os.utime os.write os.mkfifo shutil.rmtree shutil.copy shutil.copy2
        shutil.copyfile shutil.copytree shutil.move shutil.make_archive shutil.unpack_archive tempfile
        sqlite3.connect zipfile.ZipFile.extractall tarfile.TarFile.extractall
    """,
    "read": """
        builtins.open io.open io.FileIO io.open_code codecs.open os.open os.listdir os.scandir os.walk os.stat
        os.lstat os.access os.readlink os.fwalk os.path.exists os.path.lexists os.path.isfile os.path.isdir
        os.path.islink os.path.getmtime os.path.getsize os.path.getctime os.path.getatime os.path.samefile
        os.path.realpath glob.glob glob.iglob linecache inspect.getsource inspect.getsourcefile
        inspect.getsourcelines inspect.getfile fileinput mmap.mmap zipfile.ZipFile tarfile.open gzip.open
        bz2.open lzma.open configparser.ConfigParser.read numpy.load filecmp tokenize.open mimetypes.init
        runpy.run_path pathlib.Path.exists pathlib.Path.is_file pathlib.Path.is_dir pathlib.Path.glob dbm.open
        aiofiles.open
    """,
    "environment": """
        os.environ os.environb os.getenv os.getenvb os.putenv os.unsetenv os.get_exec_path shutil.which
        os.path.expandvars posix.environ os.get_terminal_size shutil.get_terminal_size getpass.getuser decouple
        environs dotenv
    """,
    "arguments": "sys.argv",
    "clock": """
        time.time time.time_ns time.localtime time.gmtime time.ctime time.asctime time.strftime time.monotonic
        time.monotonic_ns time.perf_counter time.perf_counter_ns time.process_time time.clock_gettime
        time.thread_time time.tzname time.timezone time.altzone time.daylight datetime.datetime.now
        datetime.datetime.utcnow datetime.datetime.today datetime.date.today os.times
        asyncio.get_event_loop.time uuid.uuid1 email.utils.localtime email.utils.formatdate pendulum.now
        arrow.now arrow.utcnow
    """,
    "chance": """
        random.random random.randint random.randrange random.choice random.choices random.sample random.shuffle
        random.uniform random.getrandbits random.SystemRandom secrets os.urandom uuid.uuid4 random.gauss
        random.Random numpy.random
    """,
    "later": """
        threading.Thread threading.Timer _thread.start_new_thread _thread.start_new sched.scheduler
        concurrent.futures.ThreadPoolExecutor concurrent.futures.thread asyncio.to_thread
    """,
    "surroundings": """
        socket.if_nameindex sys.version_info.__eq__ signal.getsignal gc.isenabled gc.get_count gc.get_stats
        logging.root warnings.catch_warnings os.getcwd os.getcwdb os.getpid os.getuid os.geteuid os.getgid
        os.getlogin os.uname os.cpu_count os.getloadavg os.isatty os.ttyname pathlib.Path.cwd pathlib.Path.home
        os.path.expanduser os.path.abspath sys.flags sys.executable sys.prefix sys.base_prefix sys.exec_prefix
        sys.path sys.stdin.isatty sys.stdout.isatty sys.stderr.isatty sys.getrecursionlimit sys.warnoptions
        sys._xoptions sys.dont_write_bytecode sys.pycache_prefix sys.stdout.encoding sys.stdout.fileno
        sys.stdout.name sys.ps1 platform socket.gethostname
        uuid.getnode threading.current_thread threading.main_thread threading.get_ident threading.active_count
        threading.enumerate locale.getlocale locale.getpreferredencoding locale.getdefaultlocale
        sys.getfilesystemencoding site.getsitepackages sysconfig builtins.__debug__
        importlib.metadata.packages_distributions importlib.metadata.distributions
        multiprocessing.current_process multiprocessing.parent_process asyncio.current_task
        asyncio.get_running_loop asyncio._get_running_loop sys.exc_info sys.exception
    """,
    "handlers": """
        atexit.register weakref.finalize signal.signal signal.alarm signal.setitimer signal.sigaction
        signal.set_wakeup_fd os.register_at_fork threading._register_atexit
    """,
    "settings": """
        os.chdir os.fchdir os.umask os.nice os.setuid locale.setlocale random.seed warnings.filterwarnings
        warnings.simplefilter warnings.resetwarnings logging.basicConfig logging.disable logging.addLevelName
        logging.config sys.setrecursionlimit socket.setdefaulttimeout gc.disable gc.enable gc.set_threshold
        asyncio.set_event_loop_policy asyncio.set_event_loop multiprocessing.set_start_method
        threading.stack_size decimal.setcontext time.tzset faulthandler.enable sys.set_int_max_str_digits
        logging.captureWarnings sys.stdout.reconfigure sys.stderr.reconfigure
    """,
    "exit": "sys.exit builtins.exit builtins.quit builtins.SystemExit",
}
_DEEPEST = 5  # parts of a name above
# Attributes that give a power whatever object they are read from.
ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(
        ("f_back", "tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_locals", "f_globals", "f_builtins", "f_lineno"),
        "frames",
    ),
    **dict.fromkeys(("findCaller", "f_trace", "co_filename"), "frames"),
    **dict.fromkeys(("__subclasses__", "cell_contents", "__closure__"), "objects"),
    **dict.fromkeys(("__globals__", "__builtins__", "func_globals"), "modules"),
    **dict.fromkeys(("load_module", "exec_module", "create_module"), "dynamic"),
}
METHODS: dict[str, str] = {  # called on an object whose type is not known
    **dict.fromkeys(
        ("read_text", "read_bytes", "iterdir", "rglob", "is_file", "is_dir", "is_symlink", "lstat", "glob", "exists"),
        "read",
    ),
    **dict.fromkeys(("write_text", "write_bytes", "unlink", "rmdir", "touch", "symlink_to", "hardlink_to"), "write"),
    **dict.fromkeys(("isatty",), "surroundings"),
    **dict.fromkeys(("call_later", "call_at", "run_in_executor"), "later"),
}
# Attributes of other modules that programs set for themselves.
OWN_SETTINGS = frozenset(
    words(
        "sys.argv sys.tracebacklimit sys.dont_write_bytecode sys.ps1 sys.ps2 os.environ socket.timeout "
        "sys.pycache_prefix warnings.formatwarning"
    )
)
# Modules whose parts give powers, so a computed name in them hides what is used.
SENSITIVE = frozenset(
    words(
        "sys os posix builtins importlib inspect gc unittest pytest _pytest subprocess ctypes marshal pickle types "
        "traceback threading"
    )
)
# Modules that other modules hold as an attribute, such as `logging.sys`.
HELD = SENSITIVE | {"time", "signal", "atexit", "socket", "shutil", "pathlib", "_sys", "_os"}
EQUAL_NAMES = {"_sys": "sys", "_os": "os", "posix": "os", "nt": "os", "_io": "io", "__builtin__": "builtins"}
# Classes that honest code only compares types with; they count where they are called.
CALLED_ONLY = frozenset({"types.CodeType", "types.FunctionType", "builtins.SystemExit", "pickle.Unpickler"})


@cache
def _table() -> dict[str, str]:
    return {name: power for power, names in _NAMES.items() for name in names.split()}


def power_of(name: str) -> str | None:
    """Return the power that a full name gives, by itself or as a part of something that gives it."""
    table, parts = _table(), name.split(".")
    for end in range(min(len(parts), _DEEPEST), 0, -1):
        if power := table.get(".".join(parts[:end])):
            return power
    return None


_OTHER_LANGUAGES = {
    "environment": (b"process.env", b"Getenv(", b"env::var", b"getenv("),
    "arguments": (b"process.argv", b"os.Args", b"env::args", b"argv"),
    "subprocess": (b"child_process", b"os/exec", b"process::Command", b"system(", b"popen("),
    "network": (b"fetch(", b"'http'", b'"http"', b"node:http", b"net/http", b"XMLHttpRequest", b"'net'", b"TcpStream"),
    "read": (b"readFile", b"createReadStream", b"os.Open(", b"File::open", b"fopen(", b"existsSync"),
    "write": (b"writeFile", b"createWriteStream", b"os.Create(", b"File::create", b"mkdirSync"),
    "clock": (b"Date.now", b"new Date(", b"time.Now(", b"Instant::now", b"performance.now", b"clock_gettime"),
    "surroundings": (b"process.cwd", b"process.platform", b"process.pid", b"isTTY", b"os.Getwd"),
    "handlers": (b"process.on(", b"process.once(", b"signal.Notify"),
    "later": (b"setTimeout", b"setInterval", b"setImmediate", b"nextTick", b"queueMicrotask", b"thread::spawn"),
    "settings": (b"process.chdir", b"process.title"),
    "exit": (b"process.exit", b"os.Exit", b"process::exit", b"exit("),
}


@cache
def _hints(power: str) -> tuple[bytes, ...]:
    plain = {name.rpartition(".")[2].encode() for name in _NAMES.get(power, "").split()}
    methods = {name.encode() for name, given in METHODS.items() if given == power}
    return tuple(sorted(plain | methods))


def mentions(power: str, data: bytes, *, in_python: bool) -> bool:
    """Return True if a text has a word by which a power is used; of Python it says only that it is worth parsing."""
    return any(hint in data for hint in (_hints(power) if in_python else _OTHER_LANGUAGES.get(power, ())))
