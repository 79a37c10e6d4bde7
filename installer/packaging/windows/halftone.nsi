; The Windows package: for one user, without an administrator. The lists of files are made by installer/packaging/windows.py.
Unicode true
Target amd64-unicode
!include "MUI2.nsh"
!include "FileFunc.nsh"

Name "Halftone"
OutFile "@OUT@"
InstallDir "$LOCALAPPDATA\Programs\Halftone"
InstallDirRegKey HKCU "Software\Halftone" "InstallDir"
RequestExecutionLevel user
SetCompressor /SOLID lzma
ManifestDPIAware true
; A file that cannot be written ends the installation, with exit status 2.
AllowSkipFiles off
BrandingText "Halftone @VERSION@"

!define UNINSTALL "Software\Microsoft\Windows\CurrentVersion\Uninstall\Halftone"
!define CLASS "Software\Classes\Halftone.Model"
!define MUI_ICON "@ICON@"
!define MUI_UNICON "@ICON@"
!define MUI_FINISHPAGE_RUN
!define MUI_FINISHPAGE_RUN_FUNCTION Start

!define MUI_PAGE_CUSTOMFUNCTION_LEAVE CheckFolder
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"
!insertmacro MUI_LANGUAGE "SimpChinese"

LangString FOLDER_IS_FULL ${LANG_ENGLISH} "The folder $INSTDIR holds other files, so nothing was installed: choose an empty or a new one."
LangString FOLDER_IS_FULL ${LANG_SIMPCHINESE} "文件夹 $INSTDIR 中有其他文件，因此未安装任何内容：请选择空文件夹或新文件夹。"
LangString IT_RUNS ${LANG_ENGLISH} "Halftone is running, so nothing was changed: close its windows and start this installer again."
LangString IT_RUNS ${LANG_SIMPCHINESE} "Halftone 正在运行，因此未做任何更改：请关闭其窗口，然后重新运行此安装程序。"
LangString OLDER_STAYS ${LANG_ENGLISH} "The older version in $0 could not be removed completely, so the new one was not installed: close Halftone and start this installer again."
LangString OLDER_STAYS ${LANG_SIMPCHINESE} "无法完全移除 $0 中的旧版本，因此未安装新版本：请关闭 Halftone，然后重新运行此安装程序。"
LangString NOT_WRITTEN ${LANG_ENGLISH} "$INSTDIR could not be written, so nothing was installed: choose another folder, or check its rights."
LangString NOT_WRITTEN ${LANG_SIMPCHINESE} "无法写入 $INSTDIR，因此未安装任何内容：请选择其他文件夹，或检查其权限。"
LangString FILES_STAY ${LANG_ENGLISH} "Some files in $INSTDIR are in use and were not removed: close Halftone and uninstall it again."
LangString FILES_STAY ${LANG_SIMPCHINESE} "$INSTDIR 中的部分文件正在使用，未被移除：请关闭 Halftone，然后重新卸载。"

VIProductVersion "@VERSION@.0"
VIAddVersionKey "ProductName" "Halftone"
VIAddVersionKey "FileDescription" "Halftone"
VIAddVersionKey "FileVersion" "@VERSION@"
VIAddVersionKey "LegalCopyright" "Apache-2.0"

Function Start
  Exec '"$INSTDIR\halftone.cmd"'
FunctionEnd

; Files of the same names would be overwritten, and deleted by the uninstaller: a folder that holds anything must be Halftone's own.
Function CheckFolder
  ReadRegStr $0 HKCU "Software\Halftone" "InstallDir"
  StrCmp $0 $INSTDIR 0 +2
    IfFileExists "$0\uninstall.exe" own
  ${DirState} $INSTDIR $1
  IntCmp $1 1 0 own own
    MessageBox MB_OK|MB_ICONEXCLAMATION $(FOLDER_IS_FULL) /SD IDOK
    Abort
  own:
FunctionEnd

Function .onInit
  IfSilent 0 +2
    Call CheckFolder
FunctionEnd

Section
  SetShellVarContext current
  ; An older version goes first, by its own list of files.
  ReadRegStr $0 HKCU "Software\Halftone" "InstallDir"
  StrCmp $0 "" fresh
  IfFileExists "$0\uninstall.exe" 0 fresh
    ; A Halftone that runs holds a file of its environment open, which then cannot be renamed.
    ReadEnvStr $1 HALFTONE_HOME
    StrCmp $1 "" 0 +2
      StrCpy $1 "$LOCALAPPDATA\halftone-launcher\package"
    FileOpen $2 "$1\current" r
    FileRead $2 $3 12
    FileClose $2
    StrCpy $1 "$1\$3\in-use"
    IfFileExists $1 0 stopped
    ClearErrors
    Rename $1 "$1-not"
    IfErrors 0 +3
      MessageBox MB_OK|MB_ICONEXCLAMATION $(IT_RUNS) /SD IDOK
      Abort
    Rename "$1-not" $1
  stopped:
    InitPluginsDir
    ClearErrors
    CopyFiles /SILENT "$0\uninstall.exe" "$PLUGINSDIR\older.exe"
    ExecWait '"$PLUGINSDIR\older.exe" /S _?=$0' $1
    IfErrors +2
    IntCmp $1 0 fresh
      MessageBox MB_OK|MB_ICONSTOP $(OLDER_STAYS) /SD IDOK
      Abort
  fresh:
  ; First what removes a part of the files: this installer, started again, begins with it.
  ClearErrors
  SetOutPath "$INSTDIR"
  WriteUninstaller "$INSTDIR\uninstall.exe"
  IfErrors 0 +3
    MessageBox MB_OK|MB_ICONSTOP $(NOT_WRITTEN) /SD IDOK
    Abort
  WriteRegStr HKCU "Software\Halftone" "InstallDir" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayName" "Halftone"
  WriteRegStr HKCU "${UNINSTALL}" "Publisher" "Halftone developers"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayIcon" "$INSTDIR\halftone.ico"
  WriteRegStr HKCU "${UNINSTALL}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL}" "NoRepair" 1
@INSTALL@
  SetOutPath "$INSTDIR"
  CreateShortCut "$SMPROGRAMS\Halftone.lnk" "$INSTDIR\halftone.cmd" "" "$INSTDIR\halftone.ico" 0 SW_SHOWMINIMIZED
  WriteRegStr HKCU "${UNINSTALL}" "DisplayVersion" "@VERSION@"
  WriteRegDWORD HKCU "${UNINSTALL}" "EstimatedSize" @KILOBYTES@
  ; Offered in "Open with"; what opens such files by default stays as it is.
  WriteRegStr HKCU "${CLASS}" "" "Model weights"
  WriteRegStr HKCU "${CLASS}\DefaultIcon" "" "$INSTDIR\halftone.ico"
  WriteRegStr HKCU "${CLASS}\shell\open\command" "" '"$INSTDIR\halftone.cmd" gui "%1"'
  WriteRegNone HKCU "Software\Classes\.safetensors\OpenWithProgids" "Halftone.Model"
  WriteRegNone HKCU "Software\Classes\.gguf\OpenWithProgids" "Halftone.Model"
SectionEnd

Section "Uninstall"
  SetShellVarContext current
  ClearErrors
@DELETE@
  IfErrors 0 +3
    MessageBox MB_OK|MB_ICONSTOP $(FILES_STAY) /SD IDOK
    Abort
@REMOVE@
  Delete "$INSTDIR\uninstall.exe"
  RMDir "$INSTDIR"
  Delete "$SMPROGRAMS\Halftone.lnk"
  DeleteRegKey HKCU "${UNINSTALL}"
  DeleteRegKey HKCU "${CLASS}"
  DeleteRegValue HKCU "Software\Classes\.safetensors\OpenWithProgids" "Halftone.Model"
  DeleteRegKey /ifempty HKCU "Software\Classes\.safetensors\OpenWithProgids"
  DeleteRegKey /ifempty HKCU "Software\Classes\.safetensors"
  DeleteRegValue HKCU "Software\Classes\.gguf\OpenWithProgids" "Halftone.Model"
  DeleteRegKey /ifempty HKCU "Software\Classes\.gguf\OpenWithProgids"
  DeleteRegKey /ifempty HKCU "Software\Classes\.gguf"
  DeleteRegKey HKCU "Software\Halftone"
SectionEnd
